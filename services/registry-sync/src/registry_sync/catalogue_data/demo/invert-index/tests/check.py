"""The index of nine words.

What is wanted stands here, and is not worked out from files in /app, which could have been changed.
"""
import json, sys
WANTED = {
    "and": ["a.txt", "b.txt"],
    "ferns": ["a.txt"],
    "light": ["c.txt"],
    "love": ["a.txt", "c.txt"],
    "moss": ["b.txt"],
    "needs": ["b.txt"],
    "orchids": ["c.txt"],
    "shade": ["a.txt", "b.txt"],
    "water": ["a.txt", "b.txt"],
}
try:
    found = json.load(open("/app/index.json"))
except (OSError, ValueError) as error:
    sys.exit(f"FAILED: index.json is not there or is not JSON: {error}")
print("wanted", WANTED)
print("found ", found)
if found != WANTED:
    sys.exit("FAILED: index.json does not hold what is wanted")
