#!/bin/bash
set -euo pipefail
cd /app
python3 - <<'END'
import json
from datetime import UTC, datetime
times = sorted(datetime.fromisoformat(line.split()[0]) for line in open("server.log"))
before, after = max(zip(times, times[1:]), key=lambda pair: pair[1] - pair[0])
def stamp(moment): return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
gap = {"from": stamp(before), "to": stamp(after), "seconds": int((after - before).total_seconds())}
json.dump(gap, open("gap.json", "w"))
END
