"""What Assay's parts say to each other: events, commands, HTTP schemas and identifiers.

Pure pydantic models and the rules that belong to them; no I/O. Everything that crosses a process
boundary is defined here and nowhere else.
"""
