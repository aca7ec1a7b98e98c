//! Computes products of any sizes, strides and formats, chosen by the input, and compares them with the oracle.

#![no_main]

use libfuzzer_sys::fuzz_target;
use webnn_node::cpu::probe::probe;

fuzz_target!(|data: &[u8]| probe(data));
