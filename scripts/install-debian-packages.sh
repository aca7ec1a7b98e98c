#!/usr/bin/env bash
# Installs what the tests of HTML pages, of models, of kernels for GPUs, of voice detectors and of the examples need beside the
# toolchain, from Debian's packages and where it is missing: Chromium, Python's module venv, Vulkan on the CPU, synthesized
# speech, and Redis.
set -euo pipefail

packages=()
[ -x /usr/bin/chromium ] || packages+=(chromium)
python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' >/dev/null || packages+=(mesa-vulkan-drivers)
ldconfig -p | grep -q libvulkan.so.1 || packages+=(libvulkan1)
command -v espeak-ng >/dev/null || packages+=(espeak-ng)
command -v redis-server >/dev/null || packages+=(redis-server)
[ "${#packages[@]}" -gt 0 ] || exit 0

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update --quiet
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "${packages[@]}"
