"""`python -m grader`."""

from grader.app import main

main()
