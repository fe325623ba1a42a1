"""The Model Context Protocol at `/mcp`: the API's own routes as tools for a coding agent."""
