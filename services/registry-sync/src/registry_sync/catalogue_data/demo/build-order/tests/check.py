"""The one order that the rules give."""
import pathlib, sys
wanted = "base core db api icons ui app docs".split()
path = pathlib.Path("/app/order.txt")
found = path.read_text().split() if path.exists() else []
print("wanted", wanted)
print("found ", found)
sys.exit(found != wanted)
