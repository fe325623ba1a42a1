"""`python -m run_scheduler`."""

from run_scheduler.app import main

main()
