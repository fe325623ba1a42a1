#!/bin/bash
set -euo pipefail
cd /app
tr '[:upper:]' '[:lower:]' < essay.txt | tr -cs 'a-z' '\n' | grep . | sort | uniq -c \
    | sort -k1,1nr -k2,2 | head -n 5 | awk '{print $2, $1}' > top.txt
