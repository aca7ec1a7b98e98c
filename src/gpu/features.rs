//! What the shaders of an adapter may use.

use super::dialect::{Dialect, MatrixUnits};

/// The dialect of a device of `adapter` that has these features.
pub fn dialect_of(adapter: &wgpu::Adapter, features: wgpu::Features) -> Dialect {
    let (info, limits) = (adapter.get_info(), adapter.limits());
    let subgroup = info.subgroup_min_size..=info.subgroup_max_size;
    Dialect {
        f16: features.contains(wgpu::Features::SHADER_F16),
        int64: features.contains(wgpu::Features::SHADER_INT64),
        subgroups: features.contains(wgpu::Features::SUBGROUP) && *subgroup.start() >= 4 && *subgroup.end() <= 64,
        subgroup_size: (subgroup.start() == subgroup.end()).then_some(info.subgroup_min_size),
        workgroup_bytes: limits.max_compute_workgroup_storage_size,
        cooperative: matrix_units(adapter, features),
        product: None,
    }
}

/// What a device with these features has to be asked for.
pub fn experiments(features: wgpu::Features) -> wgpu::ExperimentalFeatures {
    if !features.intersects(wgpu::Features::all_experimental_mask()) {
        return wgpu::ExperimentalFeatures::disabled();
    }
    // SAFETY: what wgpu cannot promise for its experiments is that a shader is well defined that uses them wrongly. Only one
    // text uses one, `matmul_cooperative.wgsl`, in uniform control flow and inside of arrays of workgroup memory, as tests
    // of the same text without the feature show; and no result is used of a driver that fails the self-test.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}

/// The matrix units of an adapter that take float16 and add up in float32. The kernel reads them vectors, which Metal cannot.
fn matrix_units(adapter: &wgpu::Adapter, features: wgpu::Features) -> Option<MatrixUnits> {
    let vulkan = adapter.get_info().backend == wgpu::Backend::Vulkan;
    if !vulkan || !features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX) {
        return None;
    }
    let usable = |unit: &wgpu::CooperativeMatrixProperties| {
        let (halves, floats) = (wgpu::CooperativeScalarType::F16, wgpu::CooperativeScalarType::F32);
        let square = unit.m_size == unit.n_size && unit.n_size == unit.k_size;
        square && unit.ab_type == halves && unit.cr_type == floats
    };
    let sides = adapter.cooperative_matrix_properties().into_iter().filter(usable).map(|unit| unit.m_size);
    sides.filter(|side| [8, 16].contains(side)).max().map(|side| MatrixUnits { side, emulated: false })
}
