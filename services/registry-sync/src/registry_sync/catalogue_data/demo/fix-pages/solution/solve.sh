#!/bin/bash
set -euo pipefail
cd /app
sed -i 's|return items // per_page + 1|return -(-items // per_page)|; s|first = number \* per_page|first = (number - 1) * per_page|' pages.py
