//! The buffers of a plan, and the bind groups that pass them to kernels. Bind groups with the caller's tensors are
//! cached for the sets of tensors bound most recently.

use super::device::{Device, IMMEDIATES};
use super::exit::enter;
use super::kernel::ALIGNMENT;
use super::plan::{Launch, is_bound};
use crate::compile::memory::{Place, Space};
use crate::error::Result;
use crate::ir::{Graph, ValueId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Maximum size of a constants buffer in bytes, unless a single constant is larger.
const CONSTANTS_BLOCK: usize = 256 << 20;

/// Number of tensor sets with cached bind groups: programs usually alternate between two or three.
const MAX_SETS: usize = 4;

/// The constants of a plan on the device, several per buffer.
pub struct Constants {
    blocks: Vec<wgpu::Buffer>,
    /// Block and byte offset of each constant.
    places: BTreeMap<ValueId, (usize, usize)>,
}

impl Constants {
    /// Uploads the constants among `places`.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out, an `OperationError` if a memory-mapped constant cannot be read.
    pub fn upload<'p>(graph: &Graph, device: &Device, places: impl Iterator<Item = &'p Place>) -> Result<Constants> {
        let mut sizes: Vec<usize> = Vec::new();
        let mut all: BTreeMap<ValueId, (usize, usize)> = BTreeMap::new();
        for place in places {
            let Space::Constant(id) = place.space else { continue };
            if all.contains_key(&id) {
                continue;
            }
            let bytes = graph.descriptor(id).bytes().next_multiple_of(ALIGNMENT);
            match sizes.last_mut() {
                Some(size) if *size + bytes <= CONSTANTS_BLOCK => *size += bytes,
                _ => sizes.push(bytes),
            }
            let block = sizes.len() - 1;
            all.insert(id, (block, sizes[block] - bytes));
        }
        let blocks = sizes.iter().map(|&size| device.buffer("constants", size)).collect::<Result<Vec<_>>>()?;
        for (id, &(block, offset)) in &all {
            let bytes = graph.value(*id).constant().expect("a place in a constant").buffer()?;
            device.write(&blocks[block], offset, bytes.bytes())?;
        }
        Ok(Constants { blocks, places: all })
    }

    /// Size on the device in bytes.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.size() as usize).sum()
    }
}

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

/// The memory of a plan.
pub struct Bindings {
    arena: wgpu::Buffer,
    constants: Constants,
    parameters: wgpu::Buffer,
    /// Bind groups of launches that use none of the caller's tensors.
    fixed: Vec<Option<wgpu::BindGroup>>,
    sets: Arc<BoundSets>,
}

impl Bindings {
    /// Allocates an arena of `arena` bytes, and creates the bind groups that need none of the caller's tensors.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out, an `OperationError` if a bind group is rejected.
    pub(super) fn new(
        device: &Device,
        launches: &[Launch],
        constants: Constants,
        arena: usize,
        parameters: &[u32],
    ) -> Result<Bindings> {
        let bytes: Vec<u8> = parameters.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut bindings = Bindings {
            arena: device.buffer("intermediate results", arena)?,
            parameters: device.buffer_of("parameters", &bytes)?,
            constants,
            fixed: Vec::new(),
            sets: Arc::default(),
        };
        device.bound.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&bindings.sets));
        let is_fixed = |launch: &&Launch| !launch.places.iter().any(is_bound);
        bindings.fixed = device.scoped(|| {
            let group = |launch: &Launch| Some(launch).filter(is_fixed).map(|l| bindings.make(device, l, &[], &[]));
            launches.iter().map(group).collect()
        })?;
        Ok(bindings)
    }

    /// Sets all bits in the memory of intermediate results: NaN, as floats.
    ///
    /// # Errors
    /// An `UnknownError` if memory for the fill runs out.
    pub fn fill_arena(&self, device: &Device) -> Result<()> {
        device.write(&self.arena, 0, &vec![0xff; self.arena.size() as usize])
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
            let bound = launches.iter().enumerate().filter(|(index, _)| self.fixed[*index].is_none());
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
                let (block, offset) = self.constants.places[&id];
                (&self.constants.blocks[block], offset)
            }
            _ => (&self.arena, 0),
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
