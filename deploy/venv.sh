#!/bin/sh
# Makes .venv and fills it from hashed requirement files. Refuses to use a Python older than 3.11, and says what to
# install when something is missing. Usage: venv.sh create | venv.sh install FILE...
set -eu

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
have_uv() { uv --version >/dev/null 2>&1; }

create() {
    chosen=""
    for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        if new_enough "$candidate"; then chosen=$candidate; break; fi
    done
    if [ -z "$chosen" ]; then
        found=$("${PYTHON:-python3}" --version 2>&1) || found="none"
        echo "Muster needs Python 3.11 or newer (found: $found). Install it:" >&2
        echo "  Debian, Ubuntu: apt-get install python3.11 python3.11-venv   Fedora, RHEL: dnf install python3.11" >&2
        echo "  macOS: brew install python@3.11     then: make PYTHON=python3.11 demo" >&2
        exit 1
    fi
    if have_uv && uv venv -q --allow-existing --python "$chosen" .venv; then refill; return; fi
    if ! "$chosen" -c 'import venv, ensurepip' >/dev/null 2>&1; then
        echo "$chosen has no venv module (ensurepip is missing). Install it:" >&2
        version=$("$chosen" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        echo "  Debian, Ubuntu: apt-get install python$version-venv          or install uv" >&2
        exit 1
    fi
    "$chosen" -m venv .venv
    refill
}

# A .venv whose Python went away was filled for that one; make has already seen its stamps, so fill it again here.
refill() {
    if [ -e .venv/.installed ]; then install requirements.txt; fi
    if [ -e .venv/.installed-dev ]; then install requirements-dev.txt; fi
}

install() {
    files=""
    for file in "$@"; do files="$files -r $file"; done
    echo "installing $* into .venv"
    # shellcheck disable=SC2086
    if have_uv && uv pip install -q --python .venv/bin/python --require-hashes $files; then return; fi
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip -q
    # shellcheck disable=SC2086
    .venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes $files
}

command=$1
shift
"$command" "$@"
