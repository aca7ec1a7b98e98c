#!/usr/bin/env bash
# Installs from Debian's packages what tests need in addition to the toolchain, if it is missing: Chromium, Python's
# module venv, software Vulkan, speech synthesis, Redis, Prometheus, nginx, Caddy. Requires root only if something is missing.
#
#   scripts/install-debian-packages.sh [chromium|venv|vulkan|speech|redis|prometheus|nginx|caddy]...     all of them where none is named
#   scripts/install-debian-packages.sh --missing ...     only prints the names of those that are missing
set -euo pipefail

only_names=
[ "${1:-}" != --missing ] || { only_names=yes; shift; }
[ "$#" -gt 0 ] || set -- chromium venv vulkan speech redis prometheus nginx caddy

packages=()
for need in "$@"; do
  case "$need" in
    chromium) [ -x /usr/bin/chromium ] || packages+=(chromium) ;;
    venv) python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv) ;;
    vulkan)
      compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' >/dev/null || packages+=(mesa-vulkan-drivers)
      ldconfig -p | grep -q libvulkan.so.1 || packages+=(libvulkan1)
      ;;
    redis) command -v redis-server >/dev/null || packages+=(redis-server) ;;
    prometheus) command -v prometheus >/dev/null || packages+=(prometheus) ;;
    # Debian has it in /usr/sbin, which is not in the PATH of every user.
    nginx) [ -x /usr/sbin/nginx ] || packages+=(nginx-light) ;;
    caddy) command -v caddy >/dev/null || packages+=(caddy) ;;
    speech) command -v espeak-ng >/dev/null || packages+=(espeak-ng) ;;
    *) echo "$0: there is nothing named $need" >&2; exit 2 ;;
  esac
done
[ "${#packages[@]}" -gt 0 ] || exit 0
[ -z "$only_names" ] || { printf '%s\n' "${packages[@]}"; exit 0; }

if ! command -v apt-get >/dev/null; then
  echo "Missing, by Debian's names: ${packages[*]}. Install them with this system's package manager." >&2
  exit 1
fi
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update --quiet
# Tests run the servers themselves: Debian would start them as services at once.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" install -m 755 /dev/stdin "$policy"
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
fi
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "${packages[@]}"
