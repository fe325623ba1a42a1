#!/bin/bash
set -euo pipefail
cd /app
python3 - <<'END'
import pathlib
path = pathlib.Path("roman.py")
old = "    for letter in numeral:\n        total += VALUES[letter]\n"
new = (
    "    for letter, following in zip(numeral, [*numeral[1:], None]):\n"
    "        value = VALUES[letter]\n"
    "        total += -value if following and VALUES[following] > value else value\n"
)
path.write_text(path.read_text().replace(old, new))
END
