"""The totals, added up anew in cents."""
import collections, csv, pathlib, sys
cents = collections.Counter()
for row in csv.DictReader(open("/app/sales.csv")):
    whole, part = row["amount"].split(".")
    cents[row["region"]] += int(whole) * 100 + int(part)
wanted = ["region,total"] + [f"{one},{cents[one] // 100}.{cents[one] % 100:02}" for one in sorted(cents)]
path = pathlib.Path("/app/totals.csv")
found = path.read_text().split() if path.exists() else []
print("wanted", wanted)
print("found ", found)
sys.exit(found != wanted or len(cents) != 4)
