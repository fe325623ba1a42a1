#!/bin/bash
set -euo pipefail
cd /app
find project -type d -exec chmod 755 {} +
find project -type f -exec chmod 644 {} +
find project -type f -name '*.sh' -exec chmod 755 {} +
find project -type f -name '*.key' -exec chmod 600 {} +
