//! Cuts matrices into tiles for threads to share. Pure arithmetic.
//!
//! A [`Cut`] divides a count evenly: parts differ by at most one unit. [`partition`] chooses how often to cut the rows
//! and columns of a product. It estimates, for each choice, the time of the busiest thread and the cost of rereading
//! operands, which grows with the number of cuts.

use std::ops::Range;

/// The number of parts of each of `images` for about four tiles per thread; one if there is only one thread.
pub fn parts_of_images(images: usize, threads: usize) -> usize {
    if threads > 1 { (4 * threads).div_ceil(images.max(1)) } else { 1 }
}

/// A count divided into even parts, each of whole units except the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    count: usize,
    unit: usize,
    parts: usize,
}

impl Cut {
    /// Cuts `count` into `parts` parts, or into fewer if there are fewer units.
    pub fn new(count: usize, unit: usize, parts: usize) -> Cut {
        let unit = unit.max(1);
        Cut { count, unit, parts: parts.clamp(1, count.div_ceil(unit).max(1)) }
    }

    /// Cuts `count` into parts of at most `most` elements, but at least one unit.
    pub fn at_most(count: usize, unit: usize, most: usize) -> Cut {
        if count <= most {
            return Cut::new(count, unit, 1);
        }
        let most = (most / unit.max(1)).max(1);
        Cut::new(count, unit, count.div_ceil(unit.max(1)).div_ceil(most))
    }

    /// Cuts `count` items for `threads` threads into pieces of whole grains, of which at most `worthwhile` are worth
    /// sharing. There are more pieces than threads, the same number for each: a thread that lost its core or arrived
    /// late does not delay the others.
    pub fn for_threads(count: usize, grain: usize, worthwhile: usize, threads: usize) -> Cut {
        let threads = threads.min(worthwhile).max(1);
        Cut::new(count, grain, threads * (worthwhile / threads).min(4))
    }

    /// Leaves `count` in one part.
    pub fn whole(count: usize) -> Cut {
        Cut::new(count, count, 1)
    }

    /// The cut scaled with its count: the same parts, `factor` times as large.
    pub fn scaled(self, factor: usize) -> Cut {
        Cut { count: self.count * factor, unit: self.unit * factor, parts: self.parts }
    }

    /// What the lengths of parts are multiples of.
    pub fn unit(self) -> usize {
        self.unit
    }

    /// Number of parts.
    pub fn parts(self) -> usize {
        self.parts
    }

    /// The elements of part `index`.
    pub fn range(self, index: usize) -> Range<usize> {
        let units = self.count.div_ceil(self.unit);
        let at = |part: usize| (units * part / self.parts * self.unit).min(self.count);
        at(index)..at(index + 1)
    }

    /// Size of the largest part in elements.
    pub fn largest(self) -> usize {
        (self.count.div_ceil(self.unit).div_ceil(self.parts) * self.unit).min(self.count)
    }
}

/// How the rows and columns of each of several matrices are cut into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The rows.
    pub rows: Cut,
    /// The columns.
    pub cols: Cut,
}

impl Grid {
    /// One tile per matrix.
    pub fn whole(rows: usize, cols: usize) -> Grid {
        Grid { rows: Cut::whole(rows), cols: Cut::whole(cols) }
    }

    /// Number of tiles per matrix.
    pub fn tiles(&self) -> usize {
        self.rows.parts * self.cols.parts
    }

    /// Maximum rows and columns of a tile.
    pub fn largest(&self) -> [usize; 2] {
        [self.rows.largest(), self.cols.largest()]
    }
}

/// A product to share between threads. Sizes are in elements unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Number of products.
    pub batches: usize,
    /// Rows, columns and depth of each product.
    pub size: [usize; 3],
    /// Rows and columns of a register tile. Parts have whole register tiles of columns.
    pub tile: [usize; 2],
    /// The rows of a part are a multiple of this number.
    pub unit: usize,
    /// Maximum rows and columns of a part, for the caches.
    pub most: [usize; 2],
    /// Maximum elements of a part, unless the smallest possible part (one unit of rows by one register tile of columns)
    /// has more.
    pub area: usize,
    /// Whether results are finished run by run; contiguous rows of a part form a single run.
    pub finishes: bool,
    /// Nanoseconds per multiply-add.
    pub multiply_add: f64,
    /// Bytes moved per element of the left operand for each additional cut of the columns.
    pub left_bytes: usize,
    /// Bytes moved per element of the right operand for each additional cut of the rows.
    pub right_bytes: usize,
}

/// Nanoseconds per byte from beyond the caches of a core.
const BYTE: f64 = 1.0 / 20.0;
/// The fraction of the time for reading operands that computation does not hide.
const NOT_HIDDEN: f64 = 0.1;
/// Overhead per tile in nanoseconds.
const TILE: f64 = 200.0;
/// Overhead of finishing a run of results in nanoseconds.
const RUN: f64 = 60.0;
/// Fixed overhead of sharing in nanoseconds, until members of the team find work.
const SHARING: f64 = 1500.0;
/// Average wait for the last thread, as a fraction of a tile's time: threads start at different times, and other
/// processes take cores away.
const WAIT: f64 = 0.25;
/// Register tiles with fewer rows take as long as this number of rows: additions wait for each other.
const MIN_ROWS: usize = 4;
/// Maximum number of cuts of rows or columns beyond the necessary ones, per thread.
const MORE: usize = 6;

impl Shape {
    /// The product that has the columns of both, side by side; `None` if they differ in more than columns and epilogues.
    pub fn beside(self, other: Shape) -> Option<Shape> {
        let ([rows, cols, depth], [_, more, _]) = (self.size, other.size);
        let joint = Shape {
            size: [rows, cols.next_multiple_of(self.tile[1]) + more, depth],
            area: self.area.min(other.area),
            finishes: self.finishes || other.finishes,
            ..self
        };
        let alike = Shape { size: joint.size, area: joint.area, finishes: joint.finishes, ..other };
        (joint == alike && other.size == [rows, more, depth]).then_some(joint)
    }

    /// The estimated time of `grid`, in nanoseconds.
    fn time(&self, grid: &Grid, threads: usize) -> f64 {
        let [m, n, k] = self.size.map(|size| size as f64);
        let tiles = self.batches * grid.tiles();
        let [rows, cols] = grid.largest();
        let high = rows.max(rows.div_ceil(self.tile[0]) * MIN_ROWS);
        // A register tile computes at least half of its columns.
        let wide = cols.next_multiple_of(self.tile[1].div_ceil(2));
        let runs = if self.finishes && grid.cols.parts > 1 { rows } else { 0 };
        let tile = (high * wide) as f64 * k * self.multiply_add + runs as f64 * RUN + TILE;
        let left = m * k * (self.left_bytes * grid.cols.parts) as f64;
        let right = n * k * (self.right_bytes * grid.rows.parts) as f64;
        let bytes = self.batches as f64 * (left + right) * BYTE;
        // Operands are prefetched during the multiplications.
        let overlapped = |work: f64, bytes: f64| work.max(bytes) + bytes * NOT_HIDDEN;
        if threads == 1 || tiles == 1 {
            return overlapped(tiles as f64 * tile, bytes);
        }
        // The share of the busiest thread.
        let most = tiles.div_ceil(threads) as f64;
        overlapped(tile * most, bytes / tiles as f64 * most) + tile * WAIT + SHARING
    }
}

#[cfg(test)]
thread_local! {
    /// Number of calls of [`partition`] by this thread.
    pub static CALLS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The best grid for `threads` threads.
pub fn partition(shape: &Shape, threads: usize) -> Grid {
    #[cfg(test)]
    CALLS.set(CALLS.get() + 1);
    let [m, n, _] = shape.size;
    let least = [Cut::at_most(m, shape.unit, shape.most[0]).parts, Cut::at_most(n, shape.tile[1], shape.most[1]).parts];
    let of_area = (m * n).div_ceil(shape.area);
    let more = [least[0].max(of_area), least[1]].map(|parts| parts.max(MORE * threads));
    // More tiles than this are never better.
    let most = MORE * (4 * threads).max(shape.batches * of_area.max(least[0] * least[1]));
    let mut best: Option<(f64, Grid)> = None;
    for down in least[0]..least[0] + more[0] {
        let rows = Cut::new(m, shape.unit, down);
        for across in least[1]..least[1] + more[1] {
            let cols = Cut::new(n, shape.tile[1], across);
            if cols.parts < across && across > least[1] {
                break;
            }
            let grid = Grid { rows, cols };
            let time = shape.time(&grid, threads);
            let fits = grid.largest().iter().product::<usize>() <= shape.area;
            if fits && best.is_none_or(|(least, _)| time < least) {
                best = Some((time, grid));
            }
            if shape.batches * grid.tiles() > most {
                break;
            }
        }
        if rows.parts < down || shape.batches * down > most {
            break;
        }
    }
    let smallest = Grid { rows: Cut::new(m, shape.unit, m), cols: Cut::new(n, shape.tile[1], n) };
    best.map_or(smallest, |(_, grid)| grid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::costs::MULTIPLY_ADD;
    use proptest::prelude::*;

    #[test]
    fn cuts_are_even_and_cover_everything() {
        for count in 0..70 {
            for unit in [1, 3, 32] {
                for parts in 1..12 {
                    let cut = Cut::new(count, unit, parts);
                    let mut next = 0;
                    for part in 0..cut.parts() {
                        let range = cut.range(part);
                        assert_eq!(range.start, next);
                        assert!(
                            range.len() <= cut.largest() && range.len() + unit > cut.largest().min(unit),
                            "{cut:?}"
                        );
                        assert!(range.start.is_multiple_of(unit));
                        next = range.end;
                    }
                    assert_eq!(next, count);
                    let sizes = (0..cut.parts()).map(|part| cut.range(part).len().div_ceil(unit));
                    assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1, "{cut:?}");
                }
            }
        }
        assert_eq!(Cut::at_most(100, 32, 40).range(0), 0..32);
        // The last register tile is partial.
        assert_eq!(Cut::at_most(80, 32, 80).parts(), 1);
        assert_eq!(Cut::at_most(100, 1, 240), Cut::whole(100).with_unit(1));
    }

    impl Cut {
        fn with_unit(self, unit: usize) -> Cut {
            Cut { unit, ..self }
        }
    }

    /// The load of the busiest thread, as a multiple of an even share of all register tiles, if each free thread takes
    /// the next tile.
    fn longest(shape: &Shape, grid: &Grid, threads: usize) -> f64 {
        let mut load = vec![0usize; threads];
        for _ in 0..shape.batches {
            for row in 0..grid.rows.parts() {
                for col in 0..grid.cols.parts() {
                    let least = load.iter_mut().min().expect("a thread");
                    *least += grid.rows.range(row).len() * grid.cols.range(col).len().next_multiple_of(32);
                }
            }
        }
        let [m, n, _] = shape.size;
        *load.iter().max().expect("a thread") as f64
            / ((shape.batches * m * n.next_multiple_of(32)) as f64 / threads as f64)
    }

    fn shape(batches: usize, size: [usize; 3]) -> Shape {
        let (tile, most) = ([12, 32], [240, 1024]);
        Shape {
            batches,
            size,
            tile,
            unit: 1,
            most,
            area: 240 * 1024,
            finishes: false,
            multiply_add: MULTIPLY_ADD,
            left_bytes: 4,
            right_bytes: 4,
        }
    }

    fn check(shape: &Shape, threads: usize, most: f64) {
        let grid = partition(shape, threads);
        let [m, n, k] = shape.size;
        let [rows, cols] = grid.largest();
        assert!(rows <= shape.most[0] && cols <= shape.most[1].max(shape.tile[1]), "{shape:?}: {grid:?}");
        let blocks = shape.batches * m.div_ceil(12) * n.div_ceil(32);
        // Only products that take a while, can be shared, and have enough rows and columns: with fewer, reading an
        // operand twice takes as long.
        if blocks >= 16 * threads && shape.batches * m * n * k >= threads << 23 && m.min(n) >= 48 {
            let longest = longest(shape, &grid, threads);
            assert!(longest <= most, "{shape:?} on {threads} threads: {grid:?} takes {longest} of the ideal");
        }
    }

    #[test]
    fn products_of_networks_are_shared_evenly() {
        let of_networks = [
            (1, [12544, 32, 27]),
            (1, [12544, 16, 32]),
            (1, [3136, 144, 24]),
            (1, [784, 32, 144]),
            (1, [196, 384, 64]),
            (1, [196, 96, 576]),
            (1, [49, 960, 160]),
            (1, [49, 1280, 320]),
            (1, [3136, 64, 64]),
            (1, [784, 512, 128]),
            (1, [196, 1024, 256]),
            (1, [49, 2048, 512]),
            (1, [49, 512, 4608]),
            (1, [128, 384, 384]),
            (1, [128, 1536, 384]),
            (1, [128, 768, 768]),
            (1, [128, 2304, 768]),
            (1, [128, 3072, 768]),
            (1, [128, 50257, 768]),
            (1, [1500, 384, 384]),
            (1, [1500, 1536, 384]),
            (1, [1024, 384, 384]),
            (6, [1500, 1500, 64]),
            (12, [128, 64, 128]),
        ];
        for (batches, size) in of_networks {
            for threads in [1, 2, 4, 8, 16, 64] {
                check(&shape(batches, size), threads, if threads > 8 { 1.1 } else { 1.04 });
            }
        }
    }

    /// The items of the busiest of `threads` threads relative to the mean.
    fn busiest(cut: Cut, threads: usize) -> f64 {
        let first = |thread: usize| thread * cut.parts() / threads;
        let items = |thread| (first(thread)..first(thread + 1)).map(|part| cut.range(part).len()).sum::<usize>();
        let most = (0..threads).map(items).max().expect("a thread");
        (most * threads) as f64 / cut.range(cut.parts() - 1).end as f64
    }

    #[test]
    fn many_threads_get_the_same_share_of_items() {
        for threads in [8, 16, 64] {
            for count in [10 * threads, 11 * threads + 1, 99 * threads - 1, 12_345] {
                for worthwhile in [threads, 3 * threads - 1, 1 << 20] {
                    let share = busiest(Cut::for_threads(count, 1, worthwhile, threads), threads);
                    assert!(share <= 1.1, "{count} items on {threads} threads: {share}");
                }
            }
        }
        assert_eq!(Cut::for_threads(100, 1, 0, 8).parts(), 1);
        assert_eq!(Cut::for_threads(100, 30, 64, 8).parts(), 4);
    }

    #[test]
    fn small_products_stay_whole() {
        assert_eq!(partition(&shape(1, [1, 64, 64]), 8).tiles(), 1);
        assert_eq!(partition(&shape(1, [8, 64, 64]), 2).tiles(), 1);
    }

    #[test]
    fn the_expensive_operand_is_read_once() {
        // One thread: nothing that fits is cut.
        assert_eq!(
            partition(&shape(1, [128, 768, 768]), 1),
            Grid { rows: Cut::new(128, 1, 1), cols: Cut::new(768, 32, 1) }
        );
        // A wide right operand is read once.
        assert_eq!(partition(&shape(1, [128, 50257, 768]), 2).rows.parts(), 1);
    }

    proptest! {
        #[test]
        fn random_products_are_shared_evenly(
            batches in 1usize..9,
            size in [1usize..3000, 1usize..3000, 1usize..2000],
            threads in 1usize..9,
        ) {
            // If rows or columns are barely enough for all threads, more even parts would read more.
            let is_low = size[0].min(size[1]) < 48 + 16 * threads;
            check(&shape(batches, size), threads, if is_low { 1.1 } else { 1.06 });
        }
    }
}
