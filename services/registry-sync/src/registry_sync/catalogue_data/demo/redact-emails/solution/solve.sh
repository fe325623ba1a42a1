#!/bin/bash
set -euo pipefail
cd /app
python3 - <<'END'
import pathlib, re
text = pathlib.Path("letter.txt").read_text()
address = r"[A-Za-z0-9._+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}"
pathlib.Path("letter.redacted.txt").write_text(re.sub(address, "<redacted>", text))
END
