//! Selects the atomics of loom in the files of webnn-node.

fn main() {
    println!("cargo::rustc-cfg=loom");
}
