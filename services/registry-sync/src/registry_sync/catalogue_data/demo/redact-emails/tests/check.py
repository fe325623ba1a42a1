"""Every address is gone, and nothing else has changed."""
import pathlib, sys
wanted = pathlib.Path("/tests/wanted.txt").read_text()
path = pathlib.Path("/app/letter.redacted.txt")
if not path.exists():
    sys.exit("letter.redacted.txt is missing")
found = path.read_text()
for line, (a, b) in enumerate(zip(wanted.split("\n"), found.split("\n")), 1):
    if a != b:
        print(f"line {line}: wanted {a!r}, found {b!r}")
sys.exit(found != wanted)
