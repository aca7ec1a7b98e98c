#!/usr/bin/env bash
# Everything there is to run on a machine with a GPU, correctness first, with a prebuilt addon: machines with GPUs are rented by
# the minute.
#
#   bench/gpu/session.sh OUT [MODELS]
#
#   OUT       the folder of the logs and of the measurements
#   MODELS    a folder of models as bench/models.mjs reads them; target/onnx-models if not named, where they are written
#   VECTORS   (variable) a folder of conformance vectors
#   WPT_DIR   (variable) a checkout of the Web Platform Tests
#   RUST      (variable) the compiled Rust tests: cargo test --no-run --lib --no-default-features
#   BENCH     (variable) none leaves the benchmark out
#   PEERS     (variable) engines to compare with; none if not named
#   PYTHON    (variable) a Python with PyTorch and onnx2torch
#
# Each step's output goes to OUT/STEP.log; the last lines say how each ended. Exit status: 1 if a step failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$(mkdir -p "$1" && cd "$1" && pwd)
models=${2:-}
results=()
failed=0

# step NAME SECONDS COMMAND...
step() {
  local name=$1 limit=$2 start=$SECONDS status=0
  shift 2
  echo "== $name"
  timeout "$limit" "$@" >"$out/$name.log" 2>&1 || status=$?
  tail -n 4 "$out/$name.log"
  [ "$status" -eq 0 ] || failed=1
  results+=("$name: exit status $status, $((SECONDS - start)) s")
}

step info 60 node packages/cli/bin/webnn-node.js info
[ -z "${VECTORS:-}" ] || step vectors 120 node __test__/conformance/run.mjs "$VECTORS" --accelerated
[ -z "${WPT_DIR:-}" ] || step wpt 180 node __test__/wpt/run.mjs --wpt "$WPT_DIR" --device gpu
[ -z "${RUST:-}" ] || WEBNN_TEST_GPU=hardware step rust 180 "$RUST" gpu:: ops:: on_software_vulkan
[ "${BENCH:-}" = none ] || step bench 300 node bench/run.mjs --device gpu --samples "${SAMPLES:-5}" --against "${PEERS:-none}" --json "$out/bench.json" \
  ${PYTHON:+--python "$PYTHON"} ${models:+--models "$models"}

printf '%s\n' "${results[@]}"
exit "$failed"
