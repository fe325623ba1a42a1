#!/bin/bash
set -euo pipefail
cd /app
python3 - <<'END'
import pathlib
path = pathlib.Path("cache.py")
text = path.read_text()
text = text.replace(
    "        return self.values.get(key)\n",
    "        if key not in self.values:\n            return None\n"
    "        self.values[key] = self.values.pop(key)\n        return self.values[key]\n",
)
text = text.replace(
    "        if len(self.values) >= self.size:\n",
    "        self.values.pop(key, None)\n        if self.size == 0:\n            return\n"
    "        if len(self.values) >= self.size:\n",
)
path.write_text(text)
END
