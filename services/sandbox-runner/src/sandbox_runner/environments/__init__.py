"""The sandboxes of our own that Harbor's trials run in: `docker` and `local`."""
