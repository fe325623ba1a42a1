#!/bin/bash
set -euo pipefail
cd /app
cd photos
find . -type f -exec sha256sum {} + | sed 's|\./||' | sort \
    | awk '{if ($1 == last) line = line " " $2; else {if (n > 1) print line; line = $2; n = 0} last = $1; n++} END {if (n > 1) print line}' \
    | sort > ../duplicates.txt
