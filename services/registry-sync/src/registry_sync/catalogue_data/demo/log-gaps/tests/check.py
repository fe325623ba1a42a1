"""The longest silence, found anew."""
import json, pathlib, sys
from datetime import datetime, timezone
times = sorted(datetime.fromisoformat(line.split()[0]) for line in open("/app/server.log"))
before, after = max(zip(times, times[1:]), key=lambda pair: pair[1] - pair[0])
def stamp(moment):
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
wanted = {"from": stamp(before), "to": stamp(after), "seconds": int((after - before).total_seconds())}
path = pathlib.Path("/app/gap.json")
found = json.loads(path.read_text()) if path.exists() else None
print("wanted", wanted)
print("found ", found)
sys.exit(found != wanted or len(times) != 120)
