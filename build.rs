//! Sets up the linking of the Node addon.

fn main() {
    #[cfg(feature = "napi")]
    napi_build::setup();
}
