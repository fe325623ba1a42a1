"""Python client of Assay's HTTP API, and the `assay` command.

`assay_client.api.AssayClient` has one method per route; its answers are the models of
`assay_contracts.http`, and what goes wrong is one of the errors of `assay_client.errors`. Nothing
is imported here, so that the command can tell Ctrl-C in one line from the start.
"""
