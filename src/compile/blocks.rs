//! Assigns each block a range of the arena for its lifetime.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Above this number of simultaneously live pairs, blocks are no longer compared with each other.
const MAX_PAIRS: usize = 1 << 22;

/// The first and last moment at which some bytes are needed.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    /// The first moment.
    pub first: usize,
    /// The last moment, inclusive.
    pub last: usize,
}

/// Maximum spare room of a block in bytes.
const MAX_SPARE: usize = 1 << 16;

/// Bytes of the arena that are in use for a lifetime.
struct ArenaBlock {
    lifetime: Lifetime,
    bytes: usize,
    /// Reserved size in bytes, at least `bytes`.
    room: usize,
    /// Start in bytes; `None` before it is placed.
    offset: Option<usize>,
}

/// All blocks of an arena. Sizes may change, lifetimes do not.
pub struct ArenaBlocks {
    all: Vec<ArenaBlock>,
    calendar: Calendar,
    /// The indices of all blocks, largest first. Changes little from one packing to the next.
    order: Vec<usize>,
    /// Scratch list: the ranges of the blocks that are live together with the current one.
    neighbors: Vec<Range<usize>>,
}

/// The room for a block of `bytes` bytes: up to an eighth more. A block that grows in small steps, like the attention
/// scores over a cache, then rarely outgrows it.
fn room_for(bytes: usize) -> usize {
    bytes.next_multiple_of((bytes.next_power_of_two() / 16).clamp(1, MAX_SPARE))
}

impl ArenaBlocks {
    /// Creates blocks of 0 bytes.
    pub fn new(lifetimes: impl Iterator<Item = Lifetime>) -> ArenaBlocks {
        let all: Vec<ArenaBlock> =
            lifetimes.map(|lifetime| ArenaBlock { lifetime, bytes: 0, room: 0, offset: None }).collect();
        let calendar = Calendar::new(all.iter().map(|block| block.lifetime));
        let order = (0..all.len()).collect();
        ArenaBlocks { all, calendar, order, neighbors: Vec::new() }
    }

    /// Sets the size of the block at `index` in bytes. Returns whether its room has changed: then all blocks must be
    /// [packed](Self::pack).
    pub fn set_bytes(&mut self, index: usize, bytes: usize) -> bool {
        let (block, room) = (&mut self.all[index], room_for(bytes));
        block.bytes = bytes;
        std::mem::replace(&mut block.room, room) != room
    }

    /// The range of the block at `index` in the arena, in bytes.
    pub fn range(&self, index: usize) -> Range<usize> {
        let ArenaBlock { bytes, offset, .. } = self.all[index];
        let start = offset.unwrap_or(0);
        start..start + bytes
    }

    /// Places all blocks at multiples of `alignment`; returns the size of the arena in bytes.
    pub fn pack(&mut self, alignment: usize) -> usize {
        self.all.iter_mut().for_each(|block| block.offset = None);
        match self.pairs() <= MAX_PAIRS {
            true => self.pack_by_size(alignment),
            false => self.pack_by_time(alignment),
        }
    }

    /// The number of pairs of blocks that are live together.
    fn pairs(&self) -> usize {
        // For each moment, the number of blocks that begin then, and the number that ended before.
        let mut changes = vec![(0, 0); self.calendar.moments + 1];
        for ArenaBlock { lifetime, .. } in self.all.iter().filter(|block| block.bytes > 0) {
            changes[lifetime.first].0 += 1;
            changes[lifetime.last + 1].1 += 1;
        }
        let (mut living, mut pairs) = (0, 0);
        for (begin, ended) in changes {
            living -= ended;
            pairs += living * begin + begin * begin / 2;
            living += begin;
        }
        pairs
    }

    /// Places the largest blocks first, each at the lowest offset that fits between the blocks live at the same time.
    fn pack_by_size(&mut self, alignment: usize) -> usize {
        let ArenaBlocks { all, calendar, order, neighbors } = self;
        order.sort_by_key(|&index| (Reverse(all[index].room), index));
        let mut arena = 0;
        for &index in &*order {
            let ArenaBlock { room, lifetime, .. } = all[index];
            if room == 0 {
                break;
            }
            neighbors.clear();
            calendar.each_living(lifetime, |other| {
                let ArenaBlock { room, offset, .. } = all[other];
                neighbors.extend(offset.map(|start| start..start + room));
            });
            neighbors.sort_unstable_by_key(|taken| taken.start);
            let mut offset = 0;
            for taken in &*neighbors {
                if offset + room <= taken.start {
                    break;
                }
                offset = offset.max(taken.end.next_multiple_of(alignment));
            }
            all[index].offset = Some(offset);
            arena = arena.max(offset + room);
        }
        arena
    }

    /// Places blocks in the order of their first moments, like an allocator without knowledge of the future. The time
    /// hardly depends on how many blocks are live together.
    fn pack_by_time(&mut self, alignment: usize) -> usize {
        let all = &mut self.all;
        let mut starting: Vec<usize> = (0..all.len()).filter(|&index| all[index].bytes > 0).collect();
        let mut ending = starting.clone();
        starting.sort_by_key(|&index| (all[index].lifetime.first, Reverse(all[index].room), index));
        ending.sort_by_key(|&index| all[index].lifetime.last);
        let mut ending = ending.into_iter().peekable();
        let mut free = Free::default();
        for index in starting {
            let first = all[index].lifetime.first;
            while let Some(ended) = ending.next_if(|&other| all[other].lifetime.last < first) {
                let ArenaBlock { room, offset, .. } = all[ended];
                free.give(offset.expect("the block began earlier"), room.next_multiple_of(alignment));
            }
            all[index].offset = Some(free.take(all[index].room.next_multiple_of(alignment)));
        }
        free.end
    }
}

/// The unused bytes of an arena.
#[derive(Default)]
struct Free {
    /// The gaps: size by start, in bytes.
    gaps: BTreeMap<usize, usize>,
    /// The gaps as (size, start), in bytes.
    by_size: BTreeSet<(usize, usize)>,
    /// The highest end of any block so far.
    end: usize,
}

impl Free {
    fn remove(&mut self, start: usize, bytes: usize) {
        self.gaps.remove(&start);
        self.by_size.remove(&(bytes, start));
    }

    /// Takes `bytes` bytes from the smallest gap that fits, or from the end; returns their start.
    fn take(&mut self, bytes: usize) -> usize {
        let Some(&(gap, start)) = self.by_size.range((bytes, 0)..).next() else {
            let last = self.gaps.last_key_value().map(|(&start, &gap)| (start, gap));
            let start = match last.filter(|(start, gap)| start + gap == self.end) {
                Some((start, gap)) => {
                    self.remove(start, gap);
                    start
                }
                None => self.end,
            };
            self.end = start + bytes;
            return start;
        };
        self.remove(start, gap);
        if gap > bytes {
            self.give(start + bytes, gap - bytes);
        }
        start
    }

    /// Adds a gap and merges it with adjacent ones.
    fn give(&mut self, mut start: usize, mut bytes: usize) {
        let before = self.gaps.range(..start).next_back().map(|(&start, &gap)| (start, gap));
        if let Some((other, gap)) = before.filter(|(other, gap)| other + gap == start) {
            self.remove(other, gap);
            (start, bytes) = (other, gap + bytes);
        }
        if let Some(&gap) = self.gaps.get(&(start + bytes)) {
            self.remove(start + bytes, gap);
            bytes += gap;
        }
        self.gaps.insert(start, bytes);
        self.by_size.insert((bytes, start));
    }
}

/// Blocks by lifetime. Finds the blocks that are live together with a given one without visiting all of the graph's
/// thousands, most of them short-lived.
struct Calendar {
    /// Number of moments, a power of two.
    moments: usize,
    /// A binary tree over the moments: the root at 1, the children of node `i` at `2 * i` and `2 * i + 1`, the moments
    /// at the end. A block is listed at the fewest nodes that cover its lifetime.
    covering: Lists,
    /// Blocks by the first moment of their lifetime.
    starting: Lists,
}

/// Lists of blocks, one after the other.
struct Lists {
    /// The start of each list, followed by the end of the last one.
    starts: Vec<u32>,
    blocks: Vec<u32>,
}

impl Lists {
    /// `count` lists of blocks; `entries` are pairs of list and block.
    fn new(count: usize, entries: &[(usize, usize)]) -> Lists {
        let mut starts = vec![0; count + 1];
        entries.iter().for_each(|(list, _)| starts[list + 1] += 1);
        (0..count).for_each(|list| starts[list + 1] += starts[list]);
        let (mut next, mut blocks) = (starts.clone(), vec![0; entries.len()]);
        for &(list, block) in entries {
            blocks[next[list] as usize] = block as u32;
            next[list] += 1;
        }
        Lists { starts, blocks }
    }

    /// The blocks of the lists `first..=last`.
    fn of(&self, first: usize, last: usize) -> &[u32] {
        &self.blocks[self.starts[first] as usize..self.starts[last + 1] as usize]
    }
}

impl Calendar {
    /// The calendar of blocks with these lifetimes.
    fn new(lifetimes: impl Iterator<Item = Lifetime> + Clone) -> Calendar {
        let moments = lifetimes.clone().map(|lifetime| lifetime.last + 1).max().unwrap_or(0).next_power_of_two();
        let (mut covering, mut starting) = (Vec::new(), Vec::new());
        for (block, Lifetime { first, last }) in lifetimes.enumerate() {
            starting.push((first, block));
            let (mut low, mut high) = (first + moments, last + moments + 1);
            while low < high {
                if low % 2 == 1 {
                    covering.push((low, block));
                    low += 1;
                }
                if high % 2 == 1 {
                    high -= 1;
                    covering.push((high, block));
                }
                (low, high) = (low / 2, high / 2);
            }
        }
        Calendar { moments, covering: Lists::new(2 * moments, &covering), starting: Lists::new(moments, &starting) }
    }

    /// Calls `visit` with the blocks that are live at some moment of a lifetime: first those live at its start, then
    /// those that start later.
    fn each_living(&self, Lifetime { first, last }: Lifetime, mut visit: impl FnMut(usize)) {
        let mut show = |blocks: &[u32]| blocks.iter().for_each(|&block| visit(block as usize));
        let mut node = first + self.moments;
        while node > 0 {
            show(self.covering.of(node, node));
            node /= 2;
        }
        if first < last {
            show(self.starting.of(first + 1, last));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALIGNMENT: usize = 64;

    fn lives_with(a: &ArenaBlock, b: &ArenaBlock) -> bool {
        a.lifetime.first <= b.lifetime.last && b.lifetime.first <= a.lifetime.last
    }

    fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
        !a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end
    }

    fn blocks(all: impl Iterator<Item = (Lifetime, usize)> + Clone) -> ArenaBlocks {
        let mut blocks = ArenaBlocks::new(all.clone().map(|(lifetime, _)| lifetime));
        all.enumerate().for_each(|(index, (_, bytes))| _ = blocks.set_bytes(index, bytes));
        blocks
    }

    fn random_blocks(count: usize, longest: usize) -> ArenaBlocks {
        let mut random = crate::testing::Random::new(count as u64);
        let mut pick = |n: usize| (random.next() % n as u64) as usize;
        let block = |at| {
            let first = pick(at + 1);
            (Lifetime { first, last: first + pick(longest) }, pick(5) * 40 * pick(100))
        };
        let all: Vec<(Lifetime, usize)> = (0..count).map(block).collect();
        blocks(all.into_iter())
    }

    #[test]
    fn blocks_that_live_together_share_no_byte() {
        let packings: [fn(&mut ArenaBlocks, usize) -> usize; 2] =
            [ArenaBlocks::pack_by_size, ArenaBlocks::pack_by_time];
        for (longest, pack) in [1, 2, 10, 300].into_iter().flat_map(|longest| packings.map(|pack| (longest, pack))) {
            let mut blocks = random_blocks(300, longest);
            let arena = pack(&mut blocks, ALIGNMENT);
            let filled = blocks.all.iter().filter(|block| block.bytes > 0);
            assert!(filled.clone().all(|block| block.offset.is_some_and(|offset| offset.is_multiple_of(ALIGNMENT))));
            for (i, a) in blocks.all.iter().enumerate() {
                assert!(a.bytes == 0 || blocks.range(i).end <= arena);
                for (j, _) in blocks.all[..i].iter().enumerate().filter(|(_, b)| lives_with(a, b)) {
                    assert!(!overlap(&blocks.range(i), &blocks.range(j)), "{i} and {j}");
                }
            }
        }
    }

    #[test]
    fn blocks_that_grow_by_little_stay_where_they_are() {
        let mut blocks =
            blocks([(Lifetime { first: 0, last: 1 }, 1 << 20), (Lifetime { first: 1, last: 2 }, 100)].into_iter());
        blocks.pack(ALIGNMENT);
        let places = [blocks.range(0).start, blocks.range(1).start];
        let grown = (1..=(MAX_SPARE + (1 << 20))).step_by(64).filter(|&more| blocks.set_bytes(0, (1 << 20) + more));
        assert_eq!(grown.count(), 1 + ((1 << 20) + MAX_SPARE).div_ceil(MAX_SPARE) - 1, "once per spare room");
        blocks.set_bytes(0, 1 << 20);
        blocks.pack(ALIGNMENT);
        assert!(!blocks.set_bytes(0, (1 << 20) - 64), "a little less");
        assert_eq!(places, [blocks.range(0).start, blocks.range(1).start]);
        assert!(blocks.set_bytes(0, 1 << 10) && blocks.set_bytes(0, 0) && !blocks.set_bytes(0, 0));
    }

    #[test]
    fn repacked_blocks_are_placed_like_new_ones() {
        let (mut again, mut random) = (random_blocks(200, 20), crate::testing::Random::new(3));
        for _ in 0..20 {
            let sizes: Vec<usize> = (0..200).map(|_| (random.next() % 9) as usize * 100).collect();
            let mut first = ArenaBlocks::new(again.all.iter().map(|block| block.lifetime));
            for blocks in [&mut again, &mut first] {
                sizes.iter().enumerate().for_each(|(index, &bytes)| _ = blocks.set_bytes(index, bytes));
            }
            assert_eq!(again.pack(ALIGNMENT), first.pack(ALIGNMENT));
            assert!((0..200).all(|index| again.range(index) == first.range(index)));
        }
    }

    #[test]
    fn calendars_find_blocks_that_live_together() {
        let ArenaBlocks { all, calendar, .. } = random_blocks(200, 30);
        for block in &all {
            let mut living = Vec::new();
            calendar.each_living(block.lifetime, |other| living.push(other));
            living.sort_unstable();
            assert!(living.into_iter().eq((0..all.len()).filter(|&other| lives_with(block, &all[other]))));
        }
    }

    #[test]
    fn pairs_are_those_that_live_together() {
        let blocks = random_blocks(200, 30);
        let filled: Vec<_> = blocks.all.iter().filter(|block| block.bytes > 0).collect();
        let pairs = |(i, a): (usize, &&ArenaBlock)| filled[..i].iter().filter(|b| lives_with(a, b)).count();
        let expected: usize = filled.iter().enumerate().map(pairs).sum();
        // Blocks that begin at the same moment may count as half a pair with themselves.
        assert!((expected..=expected + filled.len()).contains(&blocks.pairs()), "{} for {expected}", blocks.pairs());
    }

    #[test]
    fn packing_by_time_needs_little_more_than_the_live_bytes() {
        // All are live at the same time; then every second one ends and a smaller one takes its place.
        let early = (0..1000).map(|index| (Lifetime { first: index, last: 1000 + index % 2 * 2000 }, 640));
        let late = (0..500).map(|index| (Lifetime { first: 1001 + index, last: 4000 }, 64 + index % 10 * 64));
        let mut blocks = blocks(early.chain(late));
        assert_eq!(blocks.pack_by_time(ALIGNMENT), 640_000);
    }

    #[test]
    fn large_graphs_are_planned_in_no_time() {
        // Each block lives together with the next few, and every hundredth lives long.
        let block = |first: usize| {
            let length = if first.is_multiple_of(100) { 500 } else { 3 };
            (Lifetime { first, last: first + length }, 64 + first % 7 * 4096)
        };
        let start = std::time::Instant::now();
        blocks((0..1 << 14).map(block)).pack(ALIGNMENT);
        // Comparing all pairs takes seconds in a debug build.
        assert!(start.elapsed().as_millis() < 500, "{:?}", start.elapsed());
    }
}
