#!/usr/bin/env bash
# Installs Debian's Chromium, in which the HTML pages are tested, where there is no /usr/bin/chromium.
set -euo pipefail

[ ! -x /usr/bin/chromium ] || exit 0
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update --quiet
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends chromium
