"""Benchmarks: managed catalogue, Harbor registry, task lists, pinned versions."""
