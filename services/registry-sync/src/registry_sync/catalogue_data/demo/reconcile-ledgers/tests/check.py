"""What stays unmatched: B900 and B901 could both match K901, so that either of them is left.

What is wanted stands here, and is not worked out from files in /app, which could have been changed.
"""
import json, sys
WANTED = [
    {"bank": ["B005", "B011", left], "books": ["K005", "K900"]} for left in ("B900", "B901")
]
try:
    found = json.load(open("/app/unmatched.json"))
except (OSError, ValueError) as error:
    sys.exit(f"FAILED: unmatched.json is not there or is not JSON: {error}")
print("wanted", " or ".join(map(str, WANTED)))
print("found ", found)
if found not in WANTED:
    sys.exit("FAILED: unmatched.json does not hold what is wanted")
