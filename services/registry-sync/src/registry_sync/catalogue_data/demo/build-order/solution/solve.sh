#!/bin/bash
set -euo pipefail
cd /app
python3 - <<'END'
needs = {}
for line in open("needs.txt"):
    if line.strip() and not line.startswith("#"):
        name, _, rest = line.partition(":")
        needs[name.strip()] = set(rest.split())
order = []
while len(order) < len(needs):
    order.append(min(name for name in needs if name not in order and needs[name] <= set(order)))
open("order.txt", "w").write("\n".join(order) + "\n")
END
