#!/bin/sh
# What `make check` means. Runs every check even when one fails, and ends with the names of those that did.
set -u
PY=${PY:-.venv/bin/python}
failed=""

run() {
    name=$1
    shift
    echo "== $name"
    "$@" || failed="$failed $name"
}

run "ruff" "$PY" -m ruff check .
run "format" "$PY" -m ruff format --check .
run "mypy" "$PY" -m mypy fleet dashboard tasks
run "imports" "$(dirname "$PY")/lint-imports"
run "architecture" "$PY" -m pytest -q -p no:cacheprovider tests/architecture

if [ -n "$failed" ]; then
    echo "failed:$failed" >&2
    exit 1
fi
echo "all checks passed"
