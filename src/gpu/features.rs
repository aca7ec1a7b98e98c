//! The shader features of an adapter.

use super::dialect::{Dialect, MatrixUnits};

/// The dialect of a device on `adapter` with these features and limits.
pub fn dialect_of(adapter: &wgpu::Adapter, features: wgpu::Features, limits: &wgpu::Limits) -> Dialect {
    let info = adapter.get_info();
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

/// The experimental features to request for a device with these features.
pub fn experiments(features: wgpu::Features) -> wgpu::ExperimentalFeatures {
    if !features.intersects(wgpu::Features::all_experimental_mask()) {
        return wgpu::ExperimentalFeatures::disabled();
    }
    // SAFETY: for experimental features, wgpu cannot guarantee defined behavior of a shader that misuses them. Only
    // `matmul_cooperative.wgsl` uses one, in uniform control flow and within the bounds of workgroup arrays; tests show
    // the latter with the same source without the feature. Results of drivers that fail the self-test are never used.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}

/// The adapter's matrix units for float16 with float32 accumulation. The kernel loads vectors, which Metal does not
/// support.
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
