"""Assay on one machine: embedded NATS and PostgreSQL, and every service as its own process."""
