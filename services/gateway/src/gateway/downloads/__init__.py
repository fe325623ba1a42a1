"""What can be taken away of a run: tables, log, configuration, artifacts, and signed addresses.

Tables, log and configuration are rendered once into a place apart in the blob store, under their
hash, so that an address serves to the byte what its manifest listed, also of a run that goes on.
"""
