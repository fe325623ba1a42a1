"""The interface of Osmosis Benchmarks' command line, served by Assay under `/api/cli`.

The `osmosis-ai` client works against it unchanged. Nothing is decided here: each route asks what
the routes of `/api/v1` ask, and tells the answer in the client's shapes.
"""
