"""The settings, value by value.

What is wanted stands here, and is not worked out from files in /app, which could have been changed.
"""
import json, sys
WANTED = {
    "name": "greenhouse // north",
    "zones": ["fern", "moss", "orchid"],
    "limits": {"low": 12, "high": 31},
    "note": "commas, ] and } may stand in text,]",
}
try:
    found = json.load(open("/app/settings.json"))
except (OSError, ValueError) as error:
    sys.exit(f"FAILED: settings.json is not there or is not JSON: {error}")
print("wanted", WANTED)
print("found ", found)
if found != WANTED:
    sys.exit("FAILED: settings.json does not hold what is wanted")
