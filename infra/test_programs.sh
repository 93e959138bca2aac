#!/bin/sh
# Installs the Debian packages whose programs tests run, as root and with apt-get; names them where it cannot.
set -u
missing=
for program in docker-registry podman iptables chromium; do # each is in the package of its name
    command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
[ -n "$missing" ] || exit 0
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "==> installing$missing with apt-get" >&2
    # shellcheck disable=SC2086 # a list of packages
    if apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null; then
        systemctl disable --now docker-registry 2>/dev/null || true # only the program is needed, not a service
        exit 0
    fi
fi
echo "==> tests that need$missing will be skipped (Debian: apt-get install$missing)" >&2
