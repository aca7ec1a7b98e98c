# Sourced by arm64.sh and windows.sh: a Rust of Debian 12 that compiles for other systems, unpacked into target/cross.
# Nothing is installed, and no root is needed. rustup's Rust lends only its cargo.
#
# Takes target, Rust's name of the other system. Sets cache, and host, the folder of the tools that run on this machine; cargo
# takes the rest from the environment. The working folder becomes the repository's.

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cache=$PWD/target/cross
host=$cache/host
export RUSTC=$cache/bin/rustc CARGO_TARGET_DIR=$cache/$target
export CARGO_PROFILE_TEST_DEBUG=0
addon=$cache/$target.node
mkdir -p "$cache/bin" "$cache/done"

# once COMMAND: unless it has succeeded before.
once() {
  [ ! -e "$cache/done/$1" ] || return 0
  echo "== $1, once" >&2
  "$1" >&2
  touch "$cache/done/$1"
}

# program NAME: writes a program, whose script is the standard input and finds the cache in $cache.
program() {
  { printf '#!/bin/sh\ncache=%q\n' "$cache"; cat; } >"$cache/bin/$1"
  chmod +x "$cache/bin/$1"
}

# apt-get from this system's sources, for two architectures, with lists of its own. It checks what it downloads.
apt() {
  apt-get -qq -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 \
    -o Dir::State::lists="$cache/apt/lists" -o Dir::Cache="$cache/apt/cache" \
    -o Acquire::Languages=none -o APT::Sandbox::User= -o Debug::NoLocking=1 "$@"
}

lists() {
  mkdir -p "$cache/apt/lists/partial" "$cache/apt/cache/archives/partial"
  apt update
}

# extract FOLDER PACKAGE...
extract() {
  local into=$cache/$1 debs deb
  debs=$(mktemp -d "$cache/debs.XXXXXX")
  (cd "$debs" && apt download "${@:2}")
  for deb in "$debs"/*.deb; do dpkg -x "$deb" "$into"; done
  rm -r "$debs"
}

# unpack FOLDER PACKAGE...: with the libraries that they need and this system lacks.
unpack() {
  local libraries
  once lists
  libraries=$(apt -s install --no-install-recommends "${@:2}" | sed -n 's/^Inst \(lib[^ ]*\) .*/\1/p')
  # shellcheck disable=SC2046,SC2086 # lists of names
  extract "$1" $(printf '%s\n' "${@:2}" $libraries | sort -u)
}

# Debian's newest Rust, which its browsers are compiled with; the wrapper finds LLVM and, for Windows, dlltool.
rust() {
  unpack host rustc-web libstd-rust-web-1.96 libstd-rust-web-dev libllvm22
  program rustc <<'SCRIPT'
PATH=$cache/windows/usr/bin:$PATH
LD_LIBRARY_PATH=$cache/host/usr/lib/x86_64-linux-gnu
export PATH LD_LIBRARY_PATH
exec "$cache/host/usr/bin/rustc" "$@"
SCRIPT
}

# npm_package NAME@VERSION FOLDER
npm_package() {
  local archive
  mkdir -p "$cache/$2"
  archive=$(cd "$cache" && npm pack --silent "$1")
  tar -xzf "$cache/$archive" -C "$cache/$2" --strip-components 1
  rm "$cache/$archive"
}

# test_rust NAME...: the Rust tests whose names contain one of NAMES.
test_rust() {
  cargo test --lib --no-default-features --target "$target" -- "$@"
}

# build_addon LIBRARY: the addon, from the library that cargo makes for the system. It has the profile of the tests, which
# optimizes less, and finds overflows.
build_addon() {
  cargo build --profile test --lib --target "$target"
  cp "$CARGO_TARGET_DIR/$target/debug/$1" "$addon"
}
