//! What a step of a plan sees of the memory of a dispatch.

use crate::dtype::Element;
use crate::memory::{elements, elements_mut};
use std::marker::PhantomData;

/// A piece of memory: of the arena, a bound tensor or a constant.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: a region is an address and a length; nothing safe reads or writes through it.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// No memory.
    pub const EMPTY: Region = Region { start: std::ptr::dangling_mut::<u64>().cast(), bytes: 0 };

    /// The `bytes` bytes from `start`.
    pub fn new(start: *mut u8, bytes: usize) -> Region {
        Region { start, bytes }
    }

    /// The region of a slice that is only read.
    pub fn of(bytes: &[u8]) -> Region {
        Region { start: bytes.as_ptr().cast_mut(), bytes: bytes.len() }
    }
}

/// The operands, outputs and scratch memory of one step.
pub struct Io<'a> {
    inputs: &'a [Option<Region>],
    outputs: &'a [Region],
    scratch: Region,
    /// How many outputs were handed out: they can be taken once, in order.
    taken: usize,
    scratch_taken: bool,
    lifetime: PhantomData<&'a mut [u8]>,
}

impl<'a> Io<'a> {
    /// Gives a step access to its memory.
    ///
    /// # Safety
    /// All regions must be valid for `'a` and aligned for the elements that live there. Nobody else may access the
    /// outputs and the scratch region or write to the inputs for `'a`; outputs and scratch overlap nothing else.
    pub unsafe fn new(inputs: &'a [Option<Region>], outputs: &'a [Region], scratch: Region) -> Io<'a> {
        Io { inputs, outputs, scratch, taken: 0, scratch_taken: false, lifetime: PhantomData }
    }

    /// The elements of the operand at `index`, if it was given.
    ///
    /// # Panics
    /// If the memory does not fit elements of type `T`.
    pub fn optional<T: Element>(&self, index: usize) -> Option<&'a [T]> {
        let region = self.inputs.get(index).copied().flatten()?;
        // SAFETY: by the contract of `new` the region is valid and not written to for `'a`.
        Some(elements(unsafe { std::slice::from_raw_parts(region.start, region.bytes) }))
    }

    /// The elements of the operand at `index`.
    ///
    /// # Panics
    /// If it was not given: lowering is wrong.
    pub fn input<T: Element>(&self, index: usize) -> &'a [T] {
        self.optional(index).expect("the rule row requires this operand")
    }

    /// Number of operands, absent ones included.
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Number of outputs that were not taken yet.
    pub fn outputs_left(&self) -> usize {
        self.outputs.len() - self.taken
    }

    /// The elements of the next output: the first call gives the first output, and so on.
    ///
    /// # Panics
    /// If there is none left, or the memory does not fit elements of type `T`.
    pub fn output<T: Element>(&mut self) -> &'a mut [T] {
        let region = self.outputs[self.taken];
        self.taken += 1;
        // SAFETY: by the contract of `new` nobody else accesses the region for `'a`; `taken` makes sure that it is
        // handed out once.
        elements_mut(unsafe { std::slice::from_raw_parts_mut(region.start, region.bytes) })
    }

    /// The scratch memory, with anything in it. Can be taken once.
    ///
    /// # Panics
    /// If it was taken already.
    pub fn scratch<T: Element>(&mut self) -> &'a mut [T] {
        assert!(!std::mem::replace(&mut self.scratch_taken, true), "scratch memory is taken once");
        // SAFETY: as for `output`.
        elements_mut(unsafe { std::slice::from_raw_parts_mut(self.scratch.start, self.scratch.bytes) })
    }
}
