#!/bin/bash
set -euo pipefail
cd /app
python3 - <<'END'
import collections, json, pathlib
index = collections.defaultdict(set)
for path in pathlib.Path("texts").iterdir():
    for word in path.read_text().split():
        index[word].add(path.name)
json.dump({word: sorted(names) for word, names in index.items()}, open("index.json", "w"))
END
