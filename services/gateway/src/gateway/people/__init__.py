"""People: users, the workspaces they are members of, and what they prove themselves with."""
