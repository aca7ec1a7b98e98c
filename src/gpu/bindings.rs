//! The buffers of a plan, and the bind groups that pass them to kernels. Bind groups with the caller's tensors are
//! cached for the sets of tensors bound most recently.

use super::arena::Arena;
use super::constants::DeviceConstant;
use super::device::{Device, IMMEDIATES};
use super::exit::enter;
use super::launch::Launch;
use crate::compile::memory::{Place, Space};
use crate::error::Result;
use crate::ir::ValueId;
use crate::memory::bytes_of;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Number of tensor sets with cached bind groups: programs usually alternate between two or three.
const MAX_SETS: usize = 4;

/// Bind groups for one set of tensors, one per launch that reads or writes any of them.
pub type Groups = BTreeMap<usize, wgpu::BindGroup>;

struct BoundSet {
    tensors: Vec<wgpu::Buffer>,
    groups: Arc<Groups>,
}

/// The tensor sets with cached bind groups, most recently bound first.
#[derive(Default)]
pub struct BoundSets(Mutex<VecDeque<BoundSet>>);

impl BoundSets {
    fn lock(&self) -> MutexGuard<'_, VecDeque<BoundSet>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl BoundSets {
    /// The number of sets.
    pub fn count(&self) -> usize {
        self.lock().len()
    }
}

impl Device {
    /// Drops the bind groups that hold `buffer`, which will not be used again: its memory is freed once the device is
    /// done with it. (Destroying the buffer would be simpler, but takes a wgpu lock that a waiting thread holds.)
    pub fn forget(&self, buffer: &wgpu::Buffer) {
        let bound: Vec<_> = {
            let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
            bound.retain(|sets| sets.strong_count() > 0);
            bound.iter().filter_map(Weak::upgrade).collect()
        };
        bound.iter().for_each(|sets| sets.lock().retain(|set| !set.tensors.contains(buffer)));
    }
}

/// Words between two pieces of changed parameters from which on they are written separately.
const GAP: usize = 16;

/// The memory of a plan.
pub struct Bindings {
    /// Bytes of the arena that the plan uses.
    pub arena_bytes: usize,
    arena: Arc<Arena>,
    pub(super) constants: BTreeMap<ValueId, Arc<DeviceConstant>>,
    numbers: Vec<u32>,
    parameters: wgpu::Buffer,
    /// Bind groups of launches that use none of the caller's tensors; `None` for the others, and for those to be made.
    fixed: Vec<Option<wgpu::BindGroup>>,
    sets: Arc<BoundSets>,
}

impl Bindings {
    /// The memory of a plan with these parameters.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out.
    pub(super) fn new(
        device: &Device,
        constants: BTreeMap<ValueId, Arc<DeviceConstant>>,
        arena_bytes: usize,
        numbers: Vec<u32>,
    ) -> Result<Bindings> {
        let arena = device.arena_of(&mut device.reserve_arena(), arena_bytes)?;
        let parameters = device.buffer_of("parameters", bytes_of(&numbers))?;
        let sets = Arc::default();
        device.bound.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&sets));
        Ok(Bindings { arena_bytes, arena, constants, numbers, parameters, fixed: Vec::new(), sets })
    }

    /// Size on the device of the constants in bytes.
    pub fn constant_bytes(&self) -> usize {
        self.constants.values().map(|constant| constant.held()).sum()
    }

    /// Writes those of `numbers` that differ from the present parameters.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out, an `OperationError` if the device fails.
    pub fn set_parameters(&mut self, device: &Device, numbers: Vec<u32>) -> Result<()> {
        if numbers.len() != self.numbers.len() {
            self.parameters = device.buffer_of("parameters", bytes_of(&numbers))?;
            self.forget_groups();
        } else {
            for piece in changed_pieces(&self.numbers, &numbers) {
                device.write(&self.parameters, piece.start * size_of::<u32>(), bytes_of(&numbers[piece]))?;
            }
        }
        self.numbers = numbers;
        Ok(())
    }

    /// Drops the bind groups of a launch whose memory or kernel has changed.
    pub fn forget_group(&mut self, launch: usize) {
        self.fixed.get_mut(launch).and_then(Option::take);
        // It may bind tensors now, or have bound some.
        self.sets.lock().clear();
    }

    fn forget_groups(&mut self) {
        self.fixed.clear();
        self.sets.lock().clear();
    }

    /// Prepares a run on `arena`: makes the bind groups without the caller's tensors that do not exist yet.
    ///
    /// # Errors
    /// An `OperationError` if a bind group is rejected.
    pub(super) fn prepare(&mut self, device: &Device, launches: &[Launch], arena: Arc<Arena>) -> Result<()> {
        if !Arc::ptr_eq(&arena, &self.arena) {
            self.arena = arena;
            self.forget_groups();
        }
        self.fixed.resize(launches.len(), None);
        let missing = |(index, launch): &(usize, &Launch)| self.fixed[*index].is_none() && !launch.is_bound();
        let missing: Vec<(usize, &Launch)> = launches.iter().enumerate().filter(missing).collect();
        if !missing.is_empty() {
            let make = |&(index, launch): &(usize, &Launch)| (index, self.make(device, launch, &[], &[]));
            let made: Vec<(usize, wgpu::BindGroup)> = device.scoped(|| missing.iter().map(make).collect())?;
            made.into_iter().for_each(|(index, group)| self.fixed[index] = Some(group));
        }
        Ok(())
    }

    /// Sets all bits in the memory of intermediate results: NaN, as floats.
    ///
    /// # Errors
    /// An `UnknownError` if memory for the fill runs out.
    pub fn fill_arena(&self, device: &Device) -> Result<()> {
        device.write(self.arena.buffer(), 0, &vec![0xff; self.arena_bytes.next_multiple_of(4)])
    }

    /// Returns the bind groups for these tensors, cached.
    ///
    /// # Errors
    /// An `OperationError` if a bind group is rejected.
    pub(super) fn bind(
        &self,
        device: &Device,
        launches: &[Launch],
        inputs: &[&wgpu::Buffer],
        outputs: &[&wgpu::Buffer],
    ) -> Result<Arc<Groups>> {
        let tensors = || inputs.iter().chain(outputs).copied();
        // Before the lock, for which a thread inside may wait.
        let _inside = enter();
        let mut sets = self.sets.lock();
        if let Some(index) = sets.iter().position(|set| set.tensors.iter().eq(tensors())) {
            let set = sets.remove(index).expect("found");
            sets.push_front(set);
            return Ok(sets[0].groups.clone());
        }
        let groups: Groups = device.scoped(|| {
            let bound = launches.iter().enumerate().filter(|(_, launch)| launch.is_bound());
            bound.map(|(index, launch)| (index, self.make(device, launch, inputs, outputs))).collect()
        })?;
        sets.truncate(MAX_SETS - 1);
        sets.push_front(BoundSet { tensors: tensors().cloned().collect(), groups: Arc::new(groups) });
        Ok(sets[0].groups.clone())
    }

    /// The bind group of a launch.
    pub fn group<'a>(&'a self, bound: &'a Groups, launch: usize) -> &'a wgpu::BindGroup {
        self.fixed[launch].as_ref().unwrap_or_else(|| &bound[&launch])
    }

    /// The buffer that holds a place, and the byte offset in it.
    pub fn source<'a>(
        &'a self,
        place: &Place,
        inputs: &[&'a wgpu::Buffer],
        outputs: &[&'a wgpu::Buffer],
    ) -> (&'a wgpu::Buffer, u64) {
        let (buffer, first) = match place.space {
            Space::Input(index) => (inputs[index], 0),
            Space::Output(index) => (outputs[index], 0),
            _ => self.own(place),
        };
        (buffer, (first + place.offset) as u64)
    }

    /// The buffer of a place outside of the caller's tensors, and the base of its offset.
    fn own(&self, place: &Place) -> (&wgpu::Buffer, usize) {
        match place.space {
            Space::Constant(id) => {
                let constant = &self.constants[&id];
                (&constant.buffer, constant.offset)
            }
            _ => (self.arena.buffer(), 0),
        }
    }

    fn make(
        &self,
        device: &Device,
        launch: &Launch,
        inputs: &[&wgpu::Buffer],
        outputs: &[&wgpu::Buffer],
    ) -> wgpu::BindGroup {
        const { assert!(IMMEDIATES as usize == size_of::<[u32; 3]>()) };
        let mut entries = vec![wgpu::BindGroupEntry { binding: 0, resource: self.parameters.as_entire_binding() }];
        for (index, place) in launch.places.iter().enumerate() {
            let (buffer, offset) = self.source(place, inputs, outputs);
            let resource = wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer,
                offset,
                size: std::num::NonZeroU64::new(place.bytes.next_multiple_of(8) as u64),
            });
            entries.push(wgpu::BindGroupEntry { binding: index as u32 + 1, resource });
        }
        device.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(launch.name),
            layout: &launch.pipeline.layout,
            entries: &entries,
        })
    }
}

/// The pieces in which `now` differs from `before`, which has the same length; those that are close together are one.
fn changed_pieces(before: &[u32], now: &[u32]) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    for index in (0..now.len()).filter(|&index| now[index] != before[index]) {
        match pieces.last_mut() {
            Some(last) if index < last.end + GAP => last.end = index + 1,
            _ => pieces.push(index..index + 1),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_are_close_together_are_one_piece() {
        let before: Vec<u32> = (0..100).collect();
        let changed = |places: &[usize]| {
            let mut now = before.clone();
            places.iter().for_each(|&place| now[place] += 1000);
            changed_pieces(&before, &now)
        };
        assert!(changed(&[]).is_empty());
        assert_eq!(changed(&[0, 15, 99]), [0..16, 99..100]);
        assert_eq!(changed(&[3, 4 + GAP]), [3..4, 4 + GAP..5 + GAP]);
    }
}
