"""`python -m sandbox_runner`."""

from sandbox_runner.app import main

main()
