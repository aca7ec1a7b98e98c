//! Writes a kernel in the languages of drivers, with wgpu's own translator and the options that wgpu gives it.

use crate::gpu::dialect::{Dialect, MatrixUnits};
use naga::back::{hlsl, msl, spv};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ModuleInfo, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator};
use naga::{AddressSpace, Module, ResourceBinding, ShaderStage, StorageAccess};
use std::fmt::Display;

/// The name of the entry point of every kernel.
const ENTRY: &str = "main";

/// Parses and validates a kernel, then writes it for Vulkan, DirectX 12 and Metal; returns the SPIR-V. Kernels with
/// matrix units exist for Vulkan only.
///
/// # Panics
/// If any of this fails. The message holds the numbered lines.
pub fn translate(name: &str, source: &str, dialect: Dialect) -> Vec<u32> {
    let (module, info) = validated(name, source, dialect);
    let words = vulkan(&module, &info, dialect).unwrap_or_else(|error| panic!("{name} as SPIR-V: {error}\n{source}"));
    if !matches!(dialect.cooperative, Some(MatrixUnits { emulated: false, .. })) {
        written(name, "HLSL", source, directx(&module, &info, dialect));
        written(name, "MSL", source, metal(&module, &info));
    }
    words
}

/// Parses and validates a kernel.
///
/// # Panics
/// If it is not valid WGSL, or uses what the dialect lacks.
fn validated(name: &str, source: &str, dialect: Dialect) -> (Module, ModuleInfo) {
    let mut capabilities = Capabilities::IMMEDIATES | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    capabilities.set(Capabilities::SHADER_FLOAT16, dialect.f16);
    capabilities.set(Capabilities::SHADER_INT64, dialect.int64);
    capabilities.set(Capabilities::SUBGROUP, dialect.subgroups);
    capabilities.set(Capabilities::COOPERATIVE_MATRIX, dialect.cooperative.is_some());
    let parsed = naga::front::wgsl::parse_str(source);
    let module = parsed.unwrap_or_else(|error| panic!("{name}: {}", error.emit_to_string(source)));
    let info = Validator::new(ValidationFlags::all(), capabilities)
        .subgroup_stages(ShaderStages::COMPUTE)
        .subgroup_operations(SubgroupOperationSet::all())
        .validate(&module)
        .unwrap_or_else(|error| panic!("{name}: {}", error.emit_to_string(source)));
    (module, info)
}

/// Checks that a language could be written.
fn written(name: &str, language: &str, source: &str, result: Result<String, impl Display>) {
    match result {
        Ok(text) => assert!(text.contains(ENTRY), "{name} as {language} has no entry point:\n{text}"),
        Err(error) => panic!("{name} as {language}: {error}\n{source}"),
    }
}

/// The bindings of the buffers, and whether the kernel may write to each.
fn buffers(module: &Module) -> impl Iterator<Item = (ResourceBinding, bool)> {
    module.global_variables.iter().filter_map(|(_, variable)| match variable.space {
        AddressSpace::Storage { access } => Some((variable.binding?, access.contains(StorageAccess::STORE))),
        _ => None,
    })
}

/// The SPIR-V version of the drivers with a dialect: that of Vulkan 1.1 where it has no extensions, and of 1.3.
pub fn version(dialect: Dialect) -> (u8, u8) {
    match dialect {
        Dialect { f16: false, int64: false, .. } => (1, 3),
        _ => (1, 6),
    }
}

/// Like wgpu-hal for a device with the features of the dialect. Devices with extensions also check accesses to buffers
/// themselves (`robustBufferAccess2`).
fn vulkan(module: &Module, info: &ModuleInfo, dialect: Dialect) -> Result<Vec<u32>, spv::Error> {
    use spv::Capability::*;
    let mut capabilities = vec![Shader, Matrix];
    if dialect.subgroups {
        capabilities.extend([
            GroupNonUniform,
            GroupNonUniformVote,
            GroupNonUniformArithmetic,
            GroupNonUniformBallot,
            GroupNonUniformShuffle,
            GroupNonUniformShuffleRelative,
            GroupNonUniformQuad,
        ]);
    }
    capabilities.extend(dialect.int64.then_some(Int64));
    capabilities.extend(dialect.f16.then_some(Float16));
    if dialect.cooperative.is_some() {
        capabilities.extend([CooperativeMatrixKHR, VulkanMemoryModel]);
    }
    let checked_by_devices = version(dialect) > (1, 3);
    let options = spv::Options {
        lang_version: version(dialect),
        flags: spv::WriterFlags::LABEL_VARYINGS | spv::WriterFlags::FORCE_POINT_SIZE,
        capabilities: Some(capabilities.into_iter().collect()),
        binding_map: buffers(module)
            .map(|(place, _)| {
                let at =
                    spv::BindingInfo { descriptor_set: place.group, binding: place.binding, binding_array_size: None };
                (place, at)
            })
            .collect(),
        bounds_check_policies: BoundsCheckPolicies {
            index: BoundsCheckPolicy::Restrict,
            buffer: if checked_by_devices { BoundsCheckPolicy::Unchecked } else { BoundsCheckPolicy::Restrict },
            ..Default::default()
        },
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: true,
        emit_int_div_checks: true,
        fake_missing_bindings: false,
        ..Default::default()
    };
    let pipeline = spv::PipelineOptions { shader_stage: ShaderStage::Compute, entry_point: ENTRY.to_string() };
    spv::write_vec(module, info, &options, Some(&pipeline))
}

/// Like wgpu-hal, for the lowest shader model with what the dialect has.
fn directx(module: &Module, info: &ModuleInfo, dialect: Dialect) -> Result<String, hlsl::Error> {
    let register = |register| hlsl::BindTarget { register, restrict_indexing: true, ..Default::default() };
    let options = hlsl::Options {
        shader_model: match dialect {
            Dialect { f16: true, .. } => hlsl::ShaderModel::V6_2,
            Dialect { int64: true, .. } | Dialect { subgroups: true, .. } => hlsl::ShaderModel::V6_0,
            _ => hlsl::ShaderModel::V5_1,
        },
        binding_map: buffers(module).map(|(place, _)| (place, register(place.binding))).collect(),
        fake_missing_bindings: false,
        special_constants_binding: Some(register(1)),
        immediates_target: Some(register(0)),
        zero_initialize_workgroup_memory: false,
        ..Default::default()
    };
    let pipeline = hlsl::PipelineOptions { entry_point: Some((ShaderStage::Compute, ENTRY.to_string())) };
    let mut text = String::new();
    hlsl::Writer::new(&mut text, &options, &pipeline).write(module, info, None)?;
    Ok(text)
}

/// Like wgpu-hal, for the first version of Metal's language with 64-bit integers.
fn metal(module: &Module, info: &ModuleInfo) -> Result<String, msl::Error> {
    let resources = buffers(module)
        .map(|(place, mutable)| {
            (place, msl::BindTarget { buffer: Some(place.binding as msl::Slot), mutable, ..Default::default() })
        })
        .collect::<msl::BindingMap>();
    let after = resources.len() as msl::Slot;
    let resources =
        msl::EntryPointResources { resources, immediates_buffer: Some(after), sizes_buffer: Some(after + 1) };
    let checked = BoundsCheckPolicy::Restrict;
    let options = msl::Options {
        lang_version: (2, 3),
        per_entry_point_map: [(ENTRY.to_string(), resources)].into(),
        fake_missing_bindings: false,
        bounds_check_policies: BoundsCheckPolicies { index: checked, buffer: checked, ..Default::default() },
        zero_initialize_workgroup_memory: false,
        ..Default::default()
    };
    let pipeline =
        msl::PipelineOptions { entry_point: Some((ShaderStage::Compute, ENTRY.to_string())), ..Default::default() };
    Ok(msl::write_string(module, info, &options, &pipeline)?.0)
}
