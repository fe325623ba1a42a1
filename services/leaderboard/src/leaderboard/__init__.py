"""Finished runs to standings."""
