//! Linear attention: every step changes a matrix by the product of two vectors, and reads it.
//!
//! A step needs what the state has for its key before it knows what to add. So the addition waits for the pass of the next
//! step, and outputs add it themselves: the product of key and query, times what will be added. Then the state is read and
//! written once per step, and reading it costs two multiply-adds.

use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::memory::ColumnBlock;

/// Maximum number of vectors of columns that are computed together. Few passes over wide rows take less time than many
/// over narrow ones, even if the state then exceeds the first-level cache.
const MAX_VECTORS: usize = 8;

/// Maximum number of vectors that are multiplied with the state in one pass.
const MAX_READS: usize = 2;

/// Floats per cache line.
const CACHE_LINE: usize = 16;

/// A vector for each step.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// The elements, from those of the first step on.
    pub data: &'a [f32],
    /// Distance between steps.
    pub stride: usize,
    /// Length of a vector.
    pub len: usize,
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn row(&self, step: usize) -> &'a [f32] {
        &self.data[step * self.stride..][..self.len]
    }

    /// Requests the vector of a step, if there is one: steps are too far apart for the processor to see what comes next.
    #[inline(always)]
    fn prefetch<S: Simd>(&self, simd: S, step: usize) {
        let next = self.data.get(step * self.stride..).unwrap_or_default();
        let next = &next[..self.len.min(next.len())];
        next.iter().step_by(CACHE_LINE).chain(next.last()).for_each(|at| simd.prefetch(at));
    }
}

/// Some columns of a state, from the first step to the last. Columns are independent of each other.
pub struct LinearAttention<'a> {
    /// Vectors of columns, as [`vectors`] returns them: as many as these columns have, or more.
    pub vectors: usize,
    /// Number of steps.
    pub steps: usize,
    /// One or several queries.
    pub query: Rows<'a>,
    /// The factor of outputs.
    pub scale: f32,
    /// The keys.
    pub key: Rows<'a>,
    /// These columns of the values.
    pub value: Rows<'a>,
    /// The factors of the state's rows, or one for all of them.
    pub decay: Option<Rows<'a>>,
    /// By what to multiply the difference between a value and what the state has for its key.
    pub rate: Option<Rows<'a>>,
    /// The state before the first step, from the first column on, with rows as far apart as those of `state`; 0 if there
    /// is none.
    pub past: Option<&'a [f32]>,
    /// Receives the state.
    pub state: ColumnBlock<'a, f32>,
    /// Returns these columns of the output of a step and query. Each is asked for once.
    pub output: &'a dyn Fn(usize, usize) -> &'a mut [f32],
    /// Of the length [`scratch_len`].
    pub scratch: &'a mut [f32],
}

/// The scratch length, in elements, for a state of `rows` rows that is updated `wide` columns at a time, with `queries`
/// query heads reading it in each step.
pub fn scratch_len(wide: usize, rows: usize, queries: usize) -> usize {
    (rows + 2 + queries) * wide
}

/// How many vectors of the `columns` of each of `states` states to compute together, so that `threads` threads have work.
/// Results do not depend on it.
pub fn vectors(isa: Isa, columns: usize, states: usize, threads: usize) -> usize {
    struct Most;
    impl Kernel for Most {
        type Output = usize;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> usize {
            most_vectors::<S>()
        }
    }
    let parts = |vectors: usize| states * columns.div_ceil(vectors * isa.lanes());
    let mut vectors = columns.div_ceil(isa.lanes()).next_power_of_two().min(isa.run(Most));
    while vectors > 2 && threads > 1 && parts(vectors) < 2 * threads {
        vectors /= 2;
    }
    vectors
}

/// The vectors whose sums for [`MAX_READS`] fit into the registers.
#[inline(always)]
const fn most_vectors<S: Simd>() -> usize {
    if S::REGISTERS < 4 * MAX_VECTORS { MAX_VECTORS / 2 } else { MAX_VECTORS }
}

/// A number for each row of a state.
#[derive(Clone, Copy)]
struct Factors<'a> {
    numbers: &'a [f32],
    /// 0 if all rows have the same one.
    step: usize,
}

impl<'a> Factors<'a> {
    const ZERO: Factors<'static> = Factors { numbers: &[0.0], step: 0 };
    const ONE: Factors<'static> = Factors { numbers: &[1.0], step: 0 };

    #[inline(always)]
    fn new(numbers: &'a [f32]) -> Factors<'a> {
        Factors { numbers, step: (numbers.len() > 1) as usize }
    }
}

/// Rows of some vectors: where the first one is, and the distance between them.
#[derive(Clone, Copy)]
struct Place {
    start: *mut f32,
    stride: usize,
}

/// A pass over a state: row `i` becomes `decay[i] * (row + key[i] * added)`.
struct Pass<'a> {
    rows: usize,
    from: Place,
    to: Place,
    key: Factors<'a>,
    added: &'a [f32],
    decay: Factors<'a>,
}

impl Pass<'_> {
    /// Also writes the sums of the new rows times the numbers in each of `reads`.
    ///
    /// # Safety
    /// `from` must be valid for reads of these rows, `to` for writes.
    #[inline(always)]
    unsafe fn run<S: Simd, const VECTORS: usize, const READS: usize>(
        &self,
        simd: S,
        reads: &[&[f32]; MAX_READS],
        sums: &mut [f32],
    ) {
        let Pass { rows, from, to, key, added, decay } = *self;
        let is_long = |factors: Factors| factors.numbers.len() > (rows - 1) * factors.step;
        assert!(is_long(key) && is_long(decay) && reads[..READS].iter().all(|read| read.len() == rows));
        let mut adds = [simd.splat(0.0); VECTORS];
        for v in 0..VECTORS {
            adds[v] = simd.load(&added[v * S::LANES..]);
        }
        let mut totals = [[simd.splat(0.0); VECTORS]; READS];
        for row in 0..rows {
            // SAFETY: the lengths were just checked; the caller guarantees the rows.
            unsafe {
                let key = simd.splat(*key.numbers.get_unchecked(row * key.step));
                let decay = simd.splat(*decay.numbers.get_unchecked(row * decay.step));
                let (from, to) = (from.start.add(row * from.stride), to.start.add(row * to.stride));
                let mut state = [adds[0]; VECTORS];
                for v in 0..VECTORS {
                    state[v] = simd.mul_add(key, adds[v], simd.load_ptr(from.add(v * S::LANES)));
                    state[v] = simd.mul(decay, state[v]);
                    simd.store_ptr(state[v], to.add(v * S::LANES));
                }
                for read in 0..READS {
                    let factor = simd.splat(*reads[read].get_unchecked(row));
                    for v in 0..VECTORS {
                        totals[read][v] = simd.mul_add(factor, state[v], totals[read][v]);
                    }
                }
            }
        }
        for read in 0..READS {
            for v in 0..VECTORS {
                simd.store(totals[read][v], &mut sums[(read * VECTORS + v) * S::LANES..]);
            }
        }
    }
}

/// The sum of the products of two vectors of the same length.
#[inline(always)]
fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let (mut sums, body) = (simd.splat(0.0), a.len() / S::LANES * S::LANES);
    for at in (0..body).step_by(S::LANES) {
        sums = simd.mul_add(simd.load(&a[at..]), simd.load(&b[at..]), sums);
    }
    simd.sum(simd.mul_add(simd.load_partial(&a[body..]), simd.load_partial(&b[body..]), sums))
}

impl Kernel for LinearAttention<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        match self.vectors {
            1 => self.advance::<S, 1>(simd),
            2 => self.advance::<S, 2>(simd),
            4 => self.advance::<S, 4>(simd),
            _ if most_vectors::<S>() == MAX_VECTORS => self.advance::<S, MAX_VECTORS>(simd),
            other => unreachable!("{other} vectors"),
        }
    }
}

impl LinearAttention<'_> {
    /// Computes all steps.
    #[inline(always)]
    fn advance<S: Simd, const VECTORS: usize>(self, simd: S) {
        let LinearAttention { steps, scale, mut state, .. } = self;
        let (rows, width, stride, wide) = (state.rows(), state.width(), state.stride(), VECTORS * S::LANES);
        let (held, scratch) = self.scratch.split_at_mut(rows * wide);
        let (added, sums) = scratch.split_at_mut(wide);
        added.fill(0.0);
        let whole = (width == wide).then(|| Place { start: state.row(0).as_mut_ptr(), stride });
        let mut from = Place { start: held.as_mut_ptr(), stride: wide };
        // Several passes go over neighboring rows. A single step needs no other memory than the output.
        let own = whole.filter(|_| steps == 1).unwrap_or(from);
        match self.past {
            Some(past) if whole.is_some() => {
                assert!(past.len() >= (rows - 1) * stride + wide);
                from = Place { start: past.as_ptr().cast_mut(), stride };
            }
            Some(past) => {
                for (from, to) in past.chunks(stride).zip(held.chunks_exact_mut(wide)) {
                    to.fill(0.0);
                    to[..width].copy_from_slice(&from[..width]);
                }
            }
            None => held.fill(0.0),
        }
        let mut before = Factors::ZERO;
        for step in 0..steps {
            let (key, queries) = (self.key.row(step), self.query.row(step).chunks_exact(rows));
            [self.key, self.query, self.value].iter().for_each(|rows| rows.prefetch(simd, step + 1));
            let (is_delta, mut left) = (self.rate.is_some() as usize, queries.clone());
            let mut decay = self.decay.map_or(Factors::ONE, |decay| Factors::new(decay.row(step)));
            for (round, sums) in sums.chunks_mut(MAX_READS * wide).enumerate() {
                let first = if round == 0 && is_delta == 1 { Some(key) } else { left.next() };
                let Some(first) = first else { break };
                let reads = [first, left.next().unwrap_or_default()];
                let pass = Pass { rows, from, to: own, key: before, added, decay };
                // SAFETY: `from` is the past, whose length was checked, or like `to` has rows of this many vectors: in
                // the scratch memory, or in the block.
                unsafe {
                    match reads[1].is_empty() {
                        true => pass.run::<S, VECTORS, 1>(simd, &reads, sums),
                        false => pass.run::<S, VECTORS, MAX_READS>(simd, &reads, sums),
                    }
                }
                (from, before, decay) = (own, Factors::ZERO, Factors::ONE);
            }
            let value = self.value.row(step);
            for at in (0..width).step_by(S::LANES) {
                let mut add = simd.load_partial(&value[at..]);
                if let Some(rate) = self.rate {
                    add = simd.mul(simd.splat(rate.row(step)[0]), simd.sub(add, simd.load(&sums[at..])));
                }
                simd.store(add, &mut added[at..]);
            }
            let sums = sums[is_delta * wide..].chunks_exact(wide);
            for (number, (query, sums)) in queries.zip(sums).enumerate() {
                let (out, own) = ((self.output)(step, number), simd.splat(scale * dot(simd, key, query)));
                for at in (0..width).step_by(S::LANES) {
                    let held = simd.mul(simd.splat(scale), simd.load(&sums[at..]));
                    simd.store_partial(simd.mul_add(own, simd.load(&added[at..]), held), &mut out[at..]);
                }
            }
            before = Factors { numbers: key, step: 1 };
        }
        let last = Pass { rows, from, to: whole.unwrap_or(own), key: before, added, decay: Factors::ONE };
        // SAFETY: as above.
        unsafe { last.run::<S, VECTORS, 0>(simd, &[&[]; MAX_READS], &mut []) };
        if whole.is_none() {
            for (row, from) in held.chunks_exact(wide).enumerate() {
                state.row(row).copy_from_slice(&from[..width]);
            }
        }
    }
}
