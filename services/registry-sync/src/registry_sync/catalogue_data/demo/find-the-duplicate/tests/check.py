"""The sets of equal files, found anew."""
import collections, pathlib, sys
root = pathlib.Path("/app/photos")
equal = collections.defaultdict(list)
for path in sorted(root.rglob("*")):
    if path.is_file():
        equal[path.read_bytes()].append(path.relative_to(root).as_posix())
wanted = sorted(" ".join(sorted(names)) for names in equal.values() if len(names) > 1)
path = pathlib.Path("/app/duplicates.txt")
found = path.read_text().splitlines() if path.exists() else []
print("wanted", wanted)
print("found ", found)
sys.exit(found != wanted or len(equal) != 5)
