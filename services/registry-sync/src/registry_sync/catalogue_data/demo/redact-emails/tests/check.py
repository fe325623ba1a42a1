"""Every address is gone, and nothing else has changed."""
import itertools, pathlib, sys
wanted = pathlib.Path("/tests/wanted.txt").read_bytes()
path = pathlib.Path("/app/letter.redacted.txt")
if not path.exists():
    sys.exit("FAILED: letter.redacted.txt is missing")
found = path.read_bytes()
pairs = itertools.zip_longest(wanted.split(b"\n"), found.split(b"\n"))
for line, (a, b) in enumerate(pairs, 1):
    if a != b:
        print(f"line {line}: wanted {a!r}, found {b!r}")
if found != wanted:
    sys.exit("FAILED: letter.redacted.txt is not the letter without its addresses")
print("all addresses are gone, and nothing else has changed")
