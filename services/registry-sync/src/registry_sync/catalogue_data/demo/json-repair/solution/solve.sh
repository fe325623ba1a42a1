#!/bin/bash
set -euo pipefail
cd /app
python3 - <<'END'
import json, re
text = open("settings.txt").read()
token = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|,(?=\s*[}\]])')
plain = token.sub(lambda m: m.group() if m.group().startswith('"') else "", text)
json.dump(json.loads(plain), open("settings.json", "w"), indent=2)
END
