"""The settings, value by value."""
import json, pathlib, sys
wanted = {
    "name": "greenhouse // north",
    "zones": ["fern", "moss", "orchid"],
    "limits": {"low": 12, "high": 31},
    "note": "commas, ] and } may stand in text,]",
}
path = pathlib.Path("/app/settings.json")
try:
    found = json.loads(path.read_text())
except (OSError, ValueError) as error:
    sys.exit(f"settings.json is not there or not JSON: {error}")
print("found", found)
sys.exit(found != wanted)
