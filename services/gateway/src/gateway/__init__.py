"""The only door: HTTP API, live events, secrets, tokens."""
