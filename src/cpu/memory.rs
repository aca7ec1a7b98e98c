//! The memory of a dispatch, as one step of a plan sees it.

use crate::compile::memory::{Place, Space};
use crate::dtype::Element;
use crate::memory::{ALIGNMENT, Appended, Buffer, elements, elements_mut};
use half::f16;
use std::marker::PhantomData;
use std::sync::Arc;

/// A range of memory in the arena, a bound tensor or a constant.
#[derive(Clone, Copy, Debug)]
struct Region {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: a region is an address and a length; nothing safe reads or writes through it.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// The region of `place` in `buffer`.
    ///
    /// # Panics
    /// If the place is not inside the buffer.
    fn of(buffer: &Buffer, place: &Place) -> Region {
        assert!(place.offset + place.bytes <= buffer.len(), "{place:?} is outside its {} bytes", buffer.len());
        Region { start: buffer.as_ptr().wrapping_add(place.offset), bytes: place.bytes }
    }

    fn whole(buffer: &Buffer) -> Region {
        Region { start: buffer.as_ptr(), bytes: buffer.len() }
    }
}

/// Replaces the items of `list`, without more room than they need.
fn refill<T>(list: &mut Vec<T>, items: impl Iterator<Item = T> + Clone) {
    list.clear();
    list.reserve_exact(items.clone().count());
    list.extend(items);
}

/// The places of a step's operands, outputs and scratch. Outputs and scratch overlap nothing else.
pub struct StepPlaces {
    inputs: Vec<Option<Place>>,
    outputs: Vec<Place>,
    scratch: Place,
}

impl Default for StepPlaces {
    fn default() -> StepPlaces {
        StepPlaces { inputs: Vec::new(), outputs: Vec::new(), scratch: Place::NONE }
    }
}

impl StepPlaces {
    /// Replaces the places.
    ///
    /// # Panics
    /// If an output or the scratch overlaps another place or is in read-only memory, which is a bug in the memory plan.
    pub fn set(
        &mut self,
        inputs: impl Iterator<Item = Option<Place>> + Clone,
        outputs: impl Iterator<Item = Place> + Clone,
        scratch: Place,
    ) {
        refill(&mut self.inputs, inputs);
        refill(&mut self.outputs, outputs);
        self.scratch = scratch;
        let check = |place: &Place, written: &[Place]| {
            assert!(matches!(place.space, Space::Arena | Space::Output(_)), "{place:?} is read-only");
            let apart = |other: &Place| assert!(!place.overlaps(other), "{place:?} overlaps {other:?}");
            written.iter().for_each(apart);
            self.inputs().for_each(apart);
        };
        self.outputs.iter().enumerate().for_each(|(index, place)| check(place, &self.outputs[..index]));
        check(&self.scratch, &self.outputs);
    }

    /// The places that the step reads.
    pub fn inputs(&self) -> impl Iterator<Item = &Place> {
        self.inputs.iter().flatten()
    }

    /// Total size of the outputs in bytes.
    pub fn written_bytes(&self) -> usize {
        self.outputs.iter().map(|place| place.bytes).sum()
    }

    /// The numbers of operands and of outputs.
    pub fn counts(&self) -> (usize, usize) {
        (self.inputs.len(), self.outputs.len())
    }
}

/// The memory of one dispatch.
pub struct Memory<'a, 'b> {
    /// Intermediate values and scratch.
    pub arena: &'a mut Buffer,
    /// The tensors bound to the inputs.
    pub inputs: &'a [&'a Buffer],
    /// The tensors bound to the outputs.
    pub outputs: &'a mut [Bound<'b>],
    /// Constants by value index.
    pub constants: &'a [Option<Arc<Buffer>>],
}

impl Memory<'_, '_> {
    fn region(&self, place: &Place) -> Region {
        let buffer = match place.space {
            Space::Arena => &*self.arena,
            Space::Input(index) => self.inputs[index],
            Space::Output(index) => match &self.outputs[index] {
                Bound::Buffer(buffer) => &**buffer,
                Bound::Appended(appended) => {
                    assert!(place.offset + place.bytes <= appended.len(), "{place:?} is outside a cache");
                    return Region { start: appended.as_ptr().wrapping_add(place.offset), bytes: place.bytes };
                }
            },
            Space::Constant(id) => self.constants[id.index()].as_ref().expect("a plan holds the constants it reads"),
        };
        Region::of(buffer, place)
    }
}

/// The destination of an output.
pub enum Bound<'a> {
    /// A tensor of its own.
    Buffer(&'a mut Buffer),
    /// Memory appended to the input that the output starts with, see [`Growing`](crate::ir::Growing). No step writes
    /// the existing bytes: an input has no step.
    Appended(&'a mut Appended),
}

impl Bound<'_> {
    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Bound::Buffer(buffer) => buffer.len(),
            Bound::Appended(appended) => appended.len(),
        }
    }
}

/// The resolved places of the running step, allocated in advance: running a step does not allocate.
#[derive(Default)]
pub struct Regions {
    inputs: Vec<Option<Region>>,
    outputs: Vec<Region>,
}

impl Regions {
    /// Reserves room for steps with up to this many operands and outputs.
    pub fn with_capacity(inputs: usize, outputs: usize) -> Regions {
        Regions { inputs: Vec::with_capacity(inputs), outputs: Vec::with_capacity(outputs) }
    }

    /// Runs `work` with access to `places` in `memory`.
    ///
    /// # Panics
    /// If a place is outside its memory.
    pub fn run(&mut self, places: &StepPlaces, memory: &mut Memory, work: impl FnOnce(&mut Io)) {
        self.inputs.clear();
        self.inputs.extend(places.inputs.iter().map(|place| place.as_ref().map(|place| memory.region(place))));
        self.outputs.clear();
        self.outputs.extend(places.outputs.iter().map(|place| memory.region(place)));
        let scratch = memory.region(&places.scratch);
        // SAFETY: the regions are inside buffers that `memory` borrows for this call. The written ones are in the arena
        // or in outputs, as checked by `StepPlaces`: mutable borrows of separate buffers. `StepPlaces` also checked
        // that outputs and scratch overlap nothing else. Places are at multiples of the element size from the start of
        // buffers, which are aligned for all elements.
        work(&mut unsafe { Io::new(&self.inputs, &self.outputs, scratch) });
    }
}

/// Runs `work` on separate buffers, one per operand and output: for a step that is not part of a plan.
pub fn run_once(inputs: &[Option<&Buffer>], outputs: &mut [Buffer], scratch: &mut Buffer, work: impl FnOnce(&mut Io)) {
    let inputs: Vec<Option<Region>> = inputs.iter().map(|input| input.map(Region::whole)).collect();
    let outputs: Vec<Region> = outputs.iter().map(Region::whole).collect();
    // SAFETY: every region is a separate buffer borrowed for this call, the written ones mutably.
    work(&mut unsafe { Io::new(&inputs, &outputs, Region::whole(scratch)) });
}

/// The operands, outputs and scratch of one step.
pub struct Io<'a> {
    inputs: &'a [Option<Region>],
    outputs: &'a [Region],
    scratch: Region,
    /// Number of outputs handed out so far: each can be taken once, in order.
    taken: usize,
    scratch_taken: bool,
    lifetime: PhantomData<&'a mut [u8]>,
}

impl<'a> Io<'a> {
    /// Creates a step's access to its memory.
    ///
    /// # Safety
    /// All regions must be valid for `'a` and aligned for their elements. During `'a`, no other code may access the
    /// outputs and the scratch region, or write to the inputs; outputs and scratch must overlap nothing else.
    unsafe fn new(inputs: &'a [Option<Region>], outputs: &'a [Region], scratch: Region) -> Io<'a> {
        Io { inputs, outputs, scratch, taken: 0, scratch_taken: false, lifetime: PhantomData }
    }

    /// The elements of the operand at `index`, if present.
    ///
    /// # Panics
    /// If the region does not consist of elements of type `T`.
    pub fn optional<T: Element>(&self, index: usize) -> Option<&'a [T]> {
        let region = self.inputs.get(index).copied().flatten()?;
        // SAFETY: by the contract of `new`, the region is valid and not written to for `'a`.
        Some(elements(unsafe { std::slice::from_raw_parts(region.start, region.bytes) }))
    }

    /// The elements of the operand at `index`.
    ///
    /// # Panics
    /// If it is absent, which is a bug in lowering.
    pub fn input<T: Element>(&self, index: usize) -> &'a [T] {
        self.optional(index).expect("the rule requires this operand")
    }

    /// Number of operands, including absent ones.
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Number of outputs that are not taken yet.
    pub fn outputs_left(&self) -> usize {
        self.outputs.len() - self.taken
    }

    /// Splits off the memory of the next of several steps, which has this number of operands, one output, and this size of
    /// scratch memory, a multiple of [`ALIGNMENT`].
    ///
    /// # Panics
    /// If that is more than there is, or any of it has been handed out.
    pub fn split(&mut self, inputs: usize, scratch: usize) -> Io<'a> {
        assert!(self.taken == 0 && !self.scratch_taken && scratch.is_multiple_of(ALIGNMENT));
        let (own_inputs, inputs) = self.inputs.split_at(inputs);
        let (own_outputs, outputs) = self.outputs.split_at(1);
        let Region { start, bytes } = self.scratch;
        let rest = Region {
            start: start.wrapping_add(scratch),
            bytes: bytes.checked_sub(scratch).expect("scratch memory of all"),
        };
        let own = Io { inputs: own_inputs, outputs: own_outputs, scratch: Region { start, bytes: scratch }, ..*self };
        *self = Io { inputs, outputs, scratch: rest, ..*self };
        own
    }

    /// The elements of the next output: the first call returns the first output, and so on.
    ///
    /// # Panics
    /// If none is left, or the region does not consist of elements of type `T`.
    pub fn output<T: Element>(&mut self) -> &'a mut [T] {
        let region = self.outputs[self.taken];
        self.taken += 1;
        // SAFETY: by the contract of `new`, no other code accesses the region for `'a`; `taken` ensures that it is
        // handed out once.
        elements_mut(unsafe { std::slice::from_raw_parts_mut(region.start, region.bytes) })
    }

    /// The scratch memory, with undefined content. Can be taken once.
    ///
    /// # Panics
    /// If it has already been taken.
    pub fn scratch<T: Element>(&mut self) -> &'a mut [T] {
        assert!(!std::mem::replace(&mut self.scratch_taken, true), "scratch memory is taken once");
        // SAFETY: as for `output`.
        elements_mut(unsafe { std::slice::from_raw_parts_mut(self.scratch.start, self.scratch.bytes) })
    }

    /// [`scratch`](Self::scratch) as float64, which is not a tensor type.
    pub fn scratch_f64(&mut self) -> &'a mut [f64] {
        let words = self.scratch::<u64>();
        // SAFETY: both types have the same size and alignment, and every bit pattern is valid for both.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len()) }
    }

    /// [`scratch`](Self::scratch) as 16-bit integers, which are no tensor type.
    pub fn scratch_i16(&mut self) -> &'a mut [i16] {
        let halves = self.scratch::<f16>();
        // SAFETY: both types have the same size and alignment, and every bit pattern is valid for both.
        unsafe { std::slice::from_raw_parts_mut(halves.as_mut_ptr().cast(), halves.len()) }
    }
}
