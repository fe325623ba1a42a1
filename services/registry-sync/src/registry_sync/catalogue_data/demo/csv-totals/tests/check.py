"""The totals of the four regions.

What is wanted stands here, and is not worked out from files in /app, which could have been changed.
"""
import pathlib, sys
WANTED = [
    "region,total",
    "east,7751.88",
    "north,4413.44",
    "south,7145.73",
    "west,6548.11",
]
path = pathlib.Path("/app/totals.csv")
found = path.read_text(errors="replace").splitlines() if path.exists() else None
print("wanted", WANTED)
print("found ", found)
if found != WANTED:
    sys.exit("FAILED: totals.csv " + ("is missing" if found is None else "does not hold what is wanted"))
