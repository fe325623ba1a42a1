#!/bin/sh
# Writes requirements.lock anew: every dependency of every member, hashed, without an address.
set -eu
cd "$(dirname "$0")/.."
[ -x .cache/uv/bin/uv ] || command -v uv >/dev/null 2>&1 || sh deploy/bootstrap.sh
if command -v uv >/dev/null 2>&1; then uv=uv; else uv=.cache/uv/bin/uv; fi
projects=$(ls shared/*/pyproject.toml services/*/pyproject.toml deploy/local/pyproject.toml)
omit=""
for project in $projects; do
    omit="$omit --no-emit-package $(sed -n 's/^name = "\(.*\)"/\1/p' "$project" | head -n 1)"
done
# shellcheck disable=SC2086  # the lists are meant to split
"$uv" pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-header \
    --no-annotate $omit $projects --group pyproject.toml:dev -o requirements.lock
