"""The five most common words.

What is wanted stands here, and is not worked out from files in /app, which could have been changed.
"""
import pathlib, sys
WANTED = ["the 11", "otter 9", "river 7", "heron 5", "reed 5"]
path = pathlib.Path("/app/top.txt")
found = path.read_text(errors="replace").splitlines() if path.exists() else None
print("wanted", WANTED)
print("found ", found)
if found != WANTED:
    sys.exit("FAILED: top.txt " + ("is missing" if found is None else "does not hold what is wanted"))
