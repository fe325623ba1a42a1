#!/bin/bash
set -euo pipefail
cd /app
python3 - <<'END'
import csv, json
from datetime import date
def rows(name):
    return [(r["id"], date.fromisoformat(r["date"]), r["amount"]) for r in csv.DictReader(open(name))]
bank, books = rows("bank.csv"), rows("books.csv")
left, used = [], set()
for apart in (0, 1):
    for entry in sorted(bank):
        if entry[0] in used:
            continue
        for other in sorted(books):
            if other[0] not in used and other[2] == entry[2] and abs((other[1] - entry[1]).days) == apart:
                used |= {entry[0], other[0]}
                break
unmatched = {
    "bank": sorted(e[0] for e in bank if e[0] not in used),
    "books": sorted(e[0] for e in books if e[0] not in used),
}
# Of two bank entries that could match the same one, which is left does not matter to the count.
json.dump(unmatched, open("unmatched.json", "w"))
END
