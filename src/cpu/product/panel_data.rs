//! The elements of panels of floats: float32, or numbers of 16 bits, widened when they are read.

use crate::cpu::kernels::float::{Floats, narrow};
use crate::cpu::simd::{Bfloat16, Isa, Kernel, Simd, widen_bfloat16};
use half::f16;

/// Elements of panels, with their type.
#[derive(Clone, Copy, Debug)]
pub enum PanelData<'a> {
    /// float32
    F32(&'a [f32]),
    /// float16
    F16(&'a [f16]),
    /// bfloat16
    Bf16(&'a [Bfloat16]),
}

/// Evaluates `$body` with `$slice` bound to the elements of a [`PanelData`] of any type.
#[macro_export]
macro_rules! with_panel {
    ($data:expr, $slice:pat => $body:expr) => {
        match $data {
            PanelData::F32($slice) => $body,
            PanelData::F16($slice) => $body,
            PanelData::Bf16($slice) => $body,
        }
    };
}

impl<'a> PanelData<'a> {
    /// Number of elements.
    pub fn len(self) -> usize {
        with_panel!(self, elements => elements.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The elements, if they are float32.
    #[inline(always)]
    pub fn as_f32(self) -> Option<&'a [f32]> {
        if let PanelData::F32(elements) = self { Some(elements) } else { None }
    }

    /// Widens the elements from `start` on into the whole of `to`.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn widen(self, isa: Isa, start: usize, to: &mut [f32]) {
        match self {
            PanelData::F32(elements) => to.copy_from_slice(&elements[start..][..to.len()]),
            PanelData::F16(elements) => Floats::F16(&elements[start..]).widen(isa, to),
            PanelData::Bf16(elements) => isa.run(WidenBfloat16 { from: &elements[start..][..to.len()], to }),
        }
    }
}

struct WidenBfloat16<'a> {
    from: &'a [Bfloat16],
    to: &'a mut [f32],
}

impl Kernel for WidenBfloat16<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        self.to.iter_mut().zip(self.from).for_each(|(to, from)| *to = widen_bfloat16(*from));
    }
}

/// A type of the elements of panels.
pub trait PanelElement: Copy + Send + Sync {
    /// Unwraps elements of this type.
    ///
    /// # Panics
    /// If they have another one.
    fn typed(data: PanelData<'_>) -> &[Self];

    /// Loads `LANES` elements, widened.
    ///
    /// # Safety
    /// `from` must be valid for reads of `LANES` elements.
    unsafe fn load<S: Simd>(simd: S, from: *const Self) -> S::F32;

    /// Fills `panel` with the numbers that `pack` writes, in place or by way of `room`. They are exact in this type.
    fn fill(isa: Isa, panel: &mut [Self], room: &mut Vec<f32>, pack: impl FnOnce(&mut [f32]));
}

impl PanelElement for f32 {
    fn typed(data: PanelData<'_>) -> &[f32] {
        data.as_f32().expect("panels of float32")
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const f32) -> S::F32 {
        // SAFETY: by the contract.
        unsafe { simd.load_ptr(from) }
    }

    fn fill(_: Isa, panel: &mut [f32], _: &mut Vec<f32>, pack: impl FnOnce(&mut [f32])) {
        pack(panel);
    }
}

impl PanelElement for f16 {
    fn typed(data: PanelData<'_>) -> &[f16] {
        if let PanelData::F16(elements) = data { elements } else { panic!("panels of float16 are expected") }
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const f16) -> S::F32 {
        // SAFETY: by the contract.
        simd.load_f16(unsafe { std::slice::from_raw_parts(from, S::LANES) })
    }

    fn fill(isa: Isa, panel: &mut [f16], room: &mut Vec<f32>, pack: impl FnOnce(&mut [f32])) {
        room.resize(panel.len(), 0.0);
        pack(room);
        narrow(isa, room, panel);
    }
}

impl PanelElement for Bfloat16 {
    fn typed(data: PanelData<'_>) -> &[Bfloat16] {
        if let PanelData::Bf16(elements) = data { elements } else { panic!("panels of bfloat16 are expected") }
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const Bfloat16) -> S::F32 {
        // SAFETY: by the contract.
        unsafe { simd.load_bfloat16(from) }
    }

    fn fill(_: Isa, panel: &mut [Bfloat16], room: &mut Vec<f32>, pack: impl FnOnce(&mut [f32])) {
        room.resize(panel.len(), 0.0);
        pack(room);
        for (to, number) in panel.iter_mut().zip(room.iter()) {
            let [_, _, low, high] = number.to_le_bytes();
            *to = [low, high];
        }
    }
}

/// A type in which elements of panels are copied back.
pub trait Unpacked: Sized {
    /// Fills `out` with the elements from `first` on that are `step` apart.
    ///
    /// # Panics
    /// If panels of this type have other elements.
    fn unpack(from: PanelData, first_and_step: [usize; 2], out: &mut [Self]);
}

fn unpack<T: Copy, U>(from: &[T], [first, step]: [usize; 2], out: &mut [U], convert: impl Fn(T) -> U) {
    out.iter_mut().zip(from[first..].iter().step_by(step)).for_each(|(out, x)| *out = convert(*x));
}

impl Unpacked for f32 {
    fn unpack(from: PanelData, at: [usize; 2], out: &mut [f32]) {
        match from {
            PanelData::F32(from) => unpack(from, at, out, |x| x),
            PanelData::Bf16(from) => unpack(from, at, out, widen_bfloat16),
            PanelData::F16(_) => panic!("panels of float16, expected float32"),
        }
    }
}

impl Unpacked for f16 {
    fn unpack(from: PanelData, at: [usize; 2], out: &mut [f16]) {
        unpack(f16::typed(from), at, out, |x| x);
    }
}
