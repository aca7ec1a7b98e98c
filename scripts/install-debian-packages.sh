#!/usr/bin/env bash
# Installs what the tests of HTML pages and of models need beside the toolchain, from Debian's packages and where it is
# missing: Chromium, and Python's module venv.
set -euo pipefail

packages=()
[ -x /usr/bin/chromium ] || packages+=(chromium)
python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
[ "${#packages[@]}" -gt 0 ] || exit 0

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update --quiet
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "${packages[@]}"
