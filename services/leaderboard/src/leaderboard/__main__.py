"""`python -m leaderboard`."""

from leaderboard.app import main

main()
