"""The one order that the rules give.

What is wanted stands here, and is not worked out from files in /app, which could have been changed.
"""
import pathlib, sys
WANTED = (
    "base core disk icons log store queue theme tls api "
    "jobs net db mail draft docs ui app zoo"
).split()
path = pathlib.Path("/app/order.txt")
found = path.read_text(errors="replace").splitlines() if path.exists() else None
print("wanted", WANTED)
print("found ", found)
if found != WANTED:
    sys.exit("FAILED: order.txt " + ("is missing" if found is None else "does not hold what is wanted"))
