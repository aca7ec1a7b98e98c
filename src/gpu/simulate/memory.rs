//! Memory shared between invocations, with a record of the last access to each part.

use super::fault::{Checked, Kind, fault};
use std::ops::RangeInclusive;

/// Who accesses memory, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The workgroup's number.
    pub group: u32,
    /// The invocation's number in its workgroup.
    pub lane: u32,
    /// The number of barriers for this memory that the workgroup has passed.
    pub epoch: u32,
}

const NOBODY: Access = Access { group: u32::MAX, lane: u32::MAX, epoch: 0 };
/// Stands for more than one invocation.
const SEVERAL: u32 = u32::MAX - 1;

/// The last uses of one scalar.
#[derive(Clone, Copy, Debug)]
struct Cell {
    written: Access,
    read: Access,
    /// Whether a workgroup other than that of `read` has read the scalar.
    read_before: bool,
}

const UNUSED: Cell = Cell { written: NOBODY, read: NOBODY, read_before: false };

/// Which invocations share the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// All invocations of a dispatch.
    Dispatch,
    /// The invocations of a workgroup; the initial contents are undefined.
    Workgroup,
    /// None: each invocation has its own.
    Invocation,
    /// All invocations, read-only.
    Constant,
}

/// The bytes of a buffer or of a variable.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The name in messages.
    pub name: String,
    /// All addressable bytes; if each invocation has a copy, those of all invocations.
    pub bytes: Vec<u8>,
    /// Size in bytes of the tensor or variable (per invocation), without a buffer's padding.
    pub size: usize,
    /// For each byte of the tensor, whether the host or a kernel wrote it.
    pub known: Vec<bool>,
    /// For each byte, how often the kernels of a node wrote it.
    pub writes: Vec<u8>,
    sharing: Sharing,
    reads_are_checked: bool,
    is_output: bool,
    grain: usize,
    cells: Vec<Cell>,
}

/// Alignment of buffer sizes in bytes: bindings consist of words, or of two words for 64-bit types.
const ROUNDING: usize = 8;

impl Memory {
    /// A buffer that holds `bytes`.
    pub fn holding(name: String, bytes: &[u8]) -> Memory {
        let mut memory = Memory::buffer(name, bytes.len());
        memory.bytes[..bytes.len()].copy_from_slice(bytes);
        memory.known.fill(true);
        memory
    }

    /// An uninitialized buffer of `size` bytes, which are NaN as floats.
    pub fn buffer(name: String, size: usize) -> Memory {
        let rounded = size.next_multiple_of(ROUNDING);
        Memory {
            name,
            bytes: vec![0xff; rounded],
            size,
            known: vec![false; rounded],
            writes: vec![0; rounded],
            sharing: Sharing::Dispatch,
            reads_are_checked: false,
            is_output: false,
            grain: 1,
            cells: Vec::new(),
        }
    }

    /// A buffer that kernels may read only after a kernel wrote it.
    pub fn scratch(name: String, size: usize) -> Memory {
        Memory { reads_are_checked: true, ..Memory::buffer(name, size) }
    }

    /// A buffer that each kernel may write at most once per byte.
    pub fn output(name: String, size: usize) -> Memory {
        Memory { is_output: true, ..Memory::buffer(name, size) }
    }

    /// A variable of `size` bytes.
    pub fn variable(name: String, size: usize, sharing: Sharing, lanes: usize) -> Memory {
        let copies = if sharing == Sharing::Invocation { lanes } else { 1 };
        Memory { bytes: vec![0xff; size * copies], size, sharing, ..Memory::buffer(name, 0) }
    }

    /// Forgets earlier accesses, at the start of a kernel whose scalars have at least `grain` bytes.
    pub fn start(&mut self, grain: usize, constant: bool) {
        self.grain = grain;
        if matches!(self.sharing, Sharing::Dispatch | Sharing::Constant) {
            self.sharing = if constant { Sharing::Constant } else { Sharing::Dispatch };
        }
        self.cells.clear();
        if matches!(self.sharing, Sharing::Dispatch | Sharing::Workgroup) {
            self.cells.resize(self.bytes.len().div_ceil(grain), UNUSED);
        }
    }

    /// The number of elements with this stride, not counting the padding after the tensor.
    pub fn length(&self, offset: usize, stride: usize) -> u64 {
        let bound = self.bytes.len().saturating_sub(offset) / stride;
        bound.min(self.size.saturating_sub(offset).div_ceil(stride)) as u64
    }

    /// Loads the scalar of `width` bytes at `offset`.
    pub fn load(&mut self, offset: usize, width: usize, access: Access) -> Checked<u64> {
        let at = self.place(offset, width, access)?;
        self.note_read(offset, width, access)?;
        Ok(self.bits(at, width))
    }

    /// Stores the scalar of `width` bytes at `offset`.
    pub fn store(&mut self, offset: usize, width: usize, bits: u64, access: Access) -> Checked<()> {
        let at = self.place(offset, width, access)?;
        self.note_write(offset, width, access)?;
        self.bytes[at..at + width].copy_from_slice(&bits.to_le_bytes()[..width]);
        Ok(())
    }

    /// Reads a scalar and replaces it by the result of `update`, atomically: updates do not race with each other.
    pub fn update(&mut self, offset: usize, width: usize, access: Access, update: impl Fn(u64) -> u64) -> Checked<u64> {
        let at = self.place(offset, width, access)?;
        let old = self.bits(at, width);
        self.bytes[at..at + width].copy_from_slice(&update(old).to_le_bytes()[..width]);
        if let Some(known) = self.known.get_mut(offset..offset + width) {
            known.fill(true);
        }
        Ok(old)
    }

    /// The number in these bytes. Handles the common width of four bytes separately.
    fn bits(&self, at: usize, width: usize) -> u64 {
        let bytes = &self.bytes[at..at + width];
        match *bytes {
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
            _ => bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | byte as u64),
        }
    }

    fn place(&self, offset: usize, width: usize, access: Access) -> Checked<usize> {
        let own = self.sharing == Sharing::Invocation;
        let end = if own { self.size } else { self.bytes.len() };
        if offset + width > end {
            return fault(Kind::OutOfBounds, format!("{}: {width} bytes at byte {offset} of {end}", self.name));
        }
        Ok(offset + if own { access.lane as usize * self.size } else { 0 })
    }

    /// The cells of these bytes.
    fn range(&self, offset: usize, width: usize) -> RangeInclusive<usize> {
        offset / self.grain..=(offset + width - 1) / self.grain
    }

    fn note_read(&mut self, offset: usize, width: usize, access: Access) -> Checked<()> {
        if matches!(self.sharing, Sharing::Constant | Sharing::Invocation) {
            return Ok(());
        }
        if self.reads_are_checked && !self.known[offset] {
            return fault(Kind::Unwritten, format!("{}, byte {offset}", self.name));
        }
        let (sharing, range) = (self.sharing, self.range(offset, width));
        for cell in &mut self.cells[range] {
            if sharing == Sharing::Workgroup && cell.written.group != access.group {
                return fault(Kind::Unwritten, format!("{}, byte {offset}", self.name));
            }
            if clashes(cell.written, access) {
                return race(&self.name, offset, "reads", "wrote", cell.written);
            }
            if cell.read.group != access.group {
                cell.read_before |= cell.read != NOBODY;
                cell.read = access;
            } else if cell.read.epoch != access.epoch {
                cell.read = access;
            } else if cell.read.lane != access.lane {
                cell.read.lane = SEVERAL;
            }
        }
        Ok(())
    }

    fn note_write(&mut self, offset: usize, width: usize, access: Access) -> Checked<()> {
        match self.sharing {
            Sharing::Invocation => return Ok(()),
            Sharing::Constant => return fault(Kind::Race, format!("{} is not for writing", self.name)),
            Sharing::Dispatch | Sharing::Workgroup => {}
        }
        let (sharing, range) = (self.sharing, self.range(offset, width));
        for cell in &mut self.cells[range] {
            // Workgroup memory is private to a workgroup: accesses by earlier ones do not matter.
            let concerns = |other: Access| sharing == Sharing::Dispatch || other.group == access.group;
            if concerns(cell.written) && clashes(cell.written, access) {
                return race(&self.name, offset, "writes", "wrote", cell.written);
            }
            let read_elsewhere = sharing == Sharing::Dispatch && cell.read_before;
            if read_elsewhere || (concerns(cell.read) && clashes(cell.read, access)) {
                return race(&self.name, offset, "writes", "read", cell.read);
            }
            cell.written = access;
        }
        if self.sharing == Sharing::Dispatch {
            self.known[offset..offset + width].fill(true);
            for count in &mut self.writes[offset..offset + width] {
                *count = count.saturating_add(1);
            }
        }
        Ok(())
    }

    /// Reports a byte of an output that one kernel wrote twice. Restarts the count if several kernels each write a part
    /// of a word's elements.
    pub fn check_writes(&mut self, words_are_shared: bool) -> Checked<()> {
        if self.is_output {
            if let Some(byte) = self.writes.iter().position(|&count| count > 1) {
                return fault(Kind::WrittenTwice, format!("{}, byte {byte} of {}", self.name, self.size));
            }
            if words_are_shared {
                self.writes.fill(0);
            }
        }
        Ok(())
    }

    /// Reports a byte of the tensor that is still unwritten.
    pub fn check_complete(&self) -> Checked<()> {
        match self.known[..self.size].iter().position(|known| !known) {
            None => Ok(()),
            Some(byte) => fault(Kind::NotWritten, format!("{}, byte {byte} of {}", self.name, self.size)),
        }
    }
}

fn race<T>(name: &str, offset: usize, does: &str, did: &str, other: Access) -> Checked<T> {
    let who = match other.lane {
        SEVERAL => "several invocations".to_string(),
        lane => format!("invocation {lane}"),
    };
    fault(Kind::Race, format!("{does} {name}, byte {offset}, which {who} of workgroup {} {did}", other.group))
}

/// Whether `access` and the earlier access `before` are unordered.
fn clashes(before: Access, access: Access) -> bool {
    before != NOBODY && (before.group != access.group || (before.epoch == access.epoch && before.lane != access.lane))
}
