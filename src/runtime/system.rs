//! What this process computes with, for people.

use super::context::refusal;
use super::settings::{
    FILL_VARIABLE, KEPT_SIZES, KEPT_VARIABLE, PASSES_VARIABLE, THREADS_VARIABLE, fill_arena, kept_sizes, passes,
    thread_count, variable,
};
use crate::compile::Passes;
use crate::cpu::simd::{ISA_VARIABLE, Isa, features};
use crate::error::Error;
use crate::gpu::adapter::{LIMITS_VARIABLE, Limits, SOFTWARE_VARIABLE, adapters_json, software_allowed, why_none};
use crate::gpu::device::EXTENSIONS;
use crate::gpu::watch::{PATIENCE_VARIABLE, patience};
use crate::memory::machine_bytes;
use crate::memory::store::{CACHE_VARIABLE, LIMIT_VARIABLE};
use crate::ops::MAX_TENSOR_COUNT;
use crate::shape::{MAX_RANK, MAX_TENSOR_BYTES};
use serde_json::{Value as Json, json};

/// The environment variables and their meanings, as Markdown: the source of the table in docs/environment.md.
fn variables() -> [(&'static str, String); 10] {
    let passes: Vec<String> = Passes::NAMES.iter().map(|name| format!("`{name}`")).collect();
    [
        (
            ISA_VARIABLE,
            "`portable`, `avx2` or `avx512` (on arm64 `portable` or `neon`): the instruction set to use instead of the \
             best one of the CPU"
                .into(),
        ),
        (PASSES_VARIABLE, format!("`all`, or some of the compiler passes {}, separated by commas", passes.join(", "))),
        (
            FILL_VARIABLE,
            "`1` fills the memory of intermediate results with NaN before each dispatch, which reveals reads of memory \
             that was never written"
                .into(),
        ),
        (
            KEPT_VARIABLE,
            format!(
                "number of sets of sizes, 1 to 1024, for which a model or graph caches plans, instead of {KEPT_SIZES}; new \
                 sizes reuse the least recently used plan"
            ),
        ),
        (THREADS_VARIABLE, "number of threads, 1 to 1024, instead of one per physical core that the process may use".into()),
        (
            SOFTWARE_VARIABLE,
            "`1` makes contexts that ask for a GPU use a CPU that emulates one (llvmpipe, WARP), and no other GPU".into(),
        ),
        (
            LIMITS_VARIABLE,
            "`minimum` gives GPUs the lowest limits that WebGPU allows (8 buffers per kernel, 256 MiB per buffer), which \
             shows what smaller GPUs support"
                .into(),
        ),
        (
            PATIENCE_VARIABLE,
            "number of seconds, 1 to 86400, after which a GPU whose driver does not answer counts as lost, instead of 10 on \
             hardware and 600 in software"
                .into(),
        ),
        (
            CACHE_VARIABLE,
            "a folder for compiled GPU kernels and packed weights instead of `webnn-node` in the user's cache folder; \
             `off` keeps them in memory only"
                .into(),
        ),
        (LIMIT_VARIABLE, "how many bytes of packed weights that folder may have at most; 20 GiB if not set".into()),
    ]
}

/// Why a context cannot be created with a variable's value; `None` if it can.
fn problem(name: &str) -> Option<Error> {
    match name {
        ISA_VARIABLE => Isa::detect().err(),
        PASSES_VARIABLE => passes().err(),
        FILL_VARIABLE => fill_arena().err(),
        KEPT_VARIABLE => kept_sizes().err(),
        THREADS_VARIABLE => thread_count(false).err(),
        SOFTWARE_VARIABLE => software_allowed().err(),
        LIMITS_VARIABLE => Limits::chosen().err(),
        PATIENCE_VARIABLE => patience(false).err(),
        _ => None,
    }
}

/// A `SystemInfo` of `inspect.d.ts`. Reports invalid values of environment variables instead of failing on them.
pub fn system_info() -> Json {
    let environment = variables().map(|(name, meaning)| {
        let problem = problem(name).map(|error| error.message);
        json!({ "name": name, "value": variable(name), "meaning": meaning, "problem": problem })
    });
    let software = software_allowed().unwrap_or(false);
    let (adapters, hangs) = match adapters_json(EXTENSIONS, software) {
        Ok(adapters) => (adapters, None),
        Err(error) => (Vec::new(), Some(error.message)),
    };
    let is_usable = adapters.iter().any(|adapter| adapter["unused"].is_null());
    let why_none = || format!("{}: everything is computed on the CPU", why_none(software));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "isa": Isa::detect().ok().map(|isa| isa.name()),
        "features": features(),
        "logicalCores": std::thread::available_parallelism().map_or(1, |count| count.get()),
        "threads": thread_count(false).ok(),
        "memoryLimitBytes": Some(machine_bytes()).filter(|&bytes| bytes != usize::MAX),
        "environment": environment,
        "gpuAdapters": adapters,
        "gpuReason": refusal().or(hangs).or_else(|| (!is_usable).then(why_none)),
        "limits": {
            "maxTensorByteLength": MAX_TENSOR_BYTES,
            "maxRank": MAX_RANK,
            "maxTensorCount": MAX_TENSOR_COUNT,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_describes_itself() {
        let info = system_info();
        assert!(Isa::available().iter().any(|isa| info["isa"] == isa.name()), "{info}");
        assert!(info["threads"].as_u64().unwrap() >= 1 && info["memoryLimitBytes"].as_u64().unwrap() > 1 << 20);
        for (name, meaning) in variables() {
            assert!(name.starts_with("WEBNN_") && !meaning.contains(['|', '\n']), "{name} fits into a table");
        }
    }

    #[test]
    fn meanings_name_every_value() {
        let meaning = |name: &str| variables().into_iter().find(|(other, _)| *other == name).expect("listed").1;
        for isa in Isa::available() {
            assert!(meaning(ISA_VARIABLE).contains(&format!("`{}`", isa.name())), "{isa:?}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn features_hold_those_of_the_instruction_set() {
        let features = features();
        if Isa::available().iter().any(|isa| isa.name() == "avx2") {
            assert!(["avx2", "fma", "f16c", "bmi2"].iter().all(|name| features.contains(name)), "{features:?}");
        }
    }
}
