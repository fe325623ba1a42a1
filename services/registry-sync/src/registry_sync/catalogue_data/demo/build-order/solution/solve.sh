#!/bin/bash
set -euo pipefail
cd /app
python3 - <<'END'
needs = {}
for line in open("needs.txt"):
    if line.strip() and not line.startswith("#"):
        name, _, rest = line.partition(":")
        needs.setdefault(name.strip(), []).extend(set(one.split("|")) for one in rest.split())
order = []
while len(order) < len(needs):
    order.append(min(n for n in needs if n not in order and all(s & set(order) for s in needs[n])))
open("order.txt", "w").write("\n".join(order) + "\n")
END
