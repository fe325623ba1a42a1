"""The subcommands of `assay`, one module for each subject."""
