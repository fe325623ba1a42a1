"""What every service stands on: event store, projections, outbox, database, blobs, settings, logs.

Nothing here knows what a run or a benchmark is; that is in `assay_contracts` and in the services.
"""
