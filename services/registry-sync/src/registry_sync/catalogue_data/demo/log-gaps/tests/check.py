"""The longest silence.

What is wanted stands here, and is not worked out from files in /app, which could have been changed.
"""
import json, sys
WANTED = {"from": "2026-02-27T22:28:16Z", "to": "2026-02-27T23:38:27Z", "seconds": 4211}
try:
    found = json.load(open("/app/gap.json"))
except (OSError, ValueError) as error:
    sys.exit(f"FAILED: gap.json is not there or is not JSON: {error}")
print("wanted", WANTED)
print("found ", found)
if found != WANTED:
    sys.exit("FAILED: gap.json does not hold what is wanted")
