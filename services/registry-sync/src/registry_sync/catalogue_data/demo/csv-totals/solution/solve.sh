#!/bin/bash
set -euo pipefail
cd /app
python3 - <<'END'
import collections, csv, decimal
totals = collections.defaultdict(decimal.Decimal)
for row in csv.DictReader(open("sales.csv")):
    totals[row["region"]] += decimal.Decimal(row["amount"])
with open("totals.csv", "w") as out:
    out.write("region,total\n")
    for region in sorted(totals):
        out.write(f"{region},{totals[region]:.2f}\n")
END
