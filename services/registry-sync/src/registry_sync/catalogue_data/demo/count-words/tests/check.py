"""The five most common words, recounted."""
import collections, pathlib, re, sys
words = re.findall(r"[a-z]+", pathlib.Path("/app/essay.txt").read_text().lower())
counts = sorted(collections.Counter(words).items(), key=lambda pair: (-pair[1], pair[0]))[:5]
wanted = [f"{word} {count}" for word, count in counts]
path = pathlib.Path("/app/top.txt")
if len(words) < 40:
    sys.exit("essay.txt was changed")
found = path.read_text().split("\n") if path.exists() else []
found = [line.strip() for line in found if line.strip()]
print("wanted", wanted)
print("found ", found)
sys.exit(found != wanted)
