#!/bin/sh
# Makes .venv with everything the workspace needs, from requirements.lock with hashes.
# Quick when nothing changed: a stamp holds the hash of the lock and of every pyproject.toml.
set -eu
cd "$(dirname "$0")/.."
members=$(ls -d shared/*/ services/*/ deploy/local/)
stamp=.venv/.assay-stamp
want=$(cat requirements.lock pyproject.toml shared/*/pyproject.toml services/*/pyproject.toml deploy/local/pyproject.toml deploy/bootstrap.sh | sha256sum)
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want $(pwd)" ] && exit 0

# uv: the one on PATH, else from PyPI into a private environment beside the cache.
if command -v uv >/dev/null 2>&1; then uv=uv; else
    uv=.cache/uv/bin/uv
    if [ ! -x "$uv" ]; then
        echo "bootstrap: installing uv into .cache/uv"
        python3 -m venv .cache/uv || { echo "bootstrap: python3 with venv is needed (Debian: apt-get install python3-venv)" >&2; exit 1; }
        .cache/uv/bin/python -m pip install --quiet uv
    fi
fi

# Python 3.12 or newer: what uv finds; else what pyenv keeps (its shims may not answer);
# else uv downloads one.
fits() { "$1" -c 'import sys; raise SystemExit(sys.version_info < (3, 12))' >/dev/null 2>&1; }
python=$("$uv" python find --no-python-downloads '>=3.12' 2>/dev/null || true)
if [ -z "$python" ] || ! fits "$python"; then
    python='>=3.12'
    root=${PYENV_ROOT:-$(pyenv root 2>/dev/null || echo "$HOME/.pyenv")}
    for candidate in "$root"/versions/*/bin/python3; do
        if [ -x "$candidate" ] && fits "$candidate"; then python=$candidate; fi
    done
fi

echo "bootstrap: installing into .venv"
[ -x .venv/bin/python ] && fits .venv/bin/python || "$uv" venv --quiet --clear --python "$python" .venv
VIRTUAL_ENV=$(pwd)/.venv; export VIRTUAL_ENV
UV_LINK_MODE=${UV_LINK_MODE:-copy}; export UV_LINK_MODE
"$uv" pip sync --quiet --require-hashes requirements.lock
editable=""; for member in $members; do editable="$editable -e ./${member%/}"; done
# shellcheck disable=SC2086  # the list is meant to split
PATH="$VIRTUAL_ENV/bin:$PATH" "$uv" pip install --quiet --no-deps --no-build-isolation $editable
printf '%s' "$want $(pwd)" > "$stamp"
