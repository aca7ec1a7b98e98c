//! Conflicts between the banks of workgroup memory, which no driver's numbers show: on most GPUs, 32 invocations access 32
//! banks of 4 bytes at once, and wait where several want different words of one bank.

use super::machine::{Machine, Root};
use wgpu::naga::AddressSpace;

const BANKS: usize = 32;
const WORD: usize = 4;

/// How many times as long the banks need for these accesses of `bytes` bytes each as without conflicts: the most words
/// that one bank has to read or write, per word of an access. Invocations that access the same word share it.
pub fn degree(offsets: impl Iterator<Item = usize>, bytes: usize) -> usize {
    let width = bytes.div_ceil(WORD).max(1);
    let mut words: Vec<usize> = offsets.flat_map(|offset| offset / WORD..offset / WORD + width).collect();
    words.sort_unstable();
    words.dedup();
    let mut banks = [0usize; BANKS];
    words.iter().for_each(|word| banks[word % BANKS] += 1);
    banks.into_iter().max().unwrap_or(0).div_ceil(width).max(1)
}

impl Machine<'_> {
    /// Counts an access by `lanes`, in lockstep, of `bytes` bytes at their offsets, if it is to workgroup memory.
    pub(super) fn note_banks(&self, root: Root, lanes: &[u32], bytes: usize, offset: impl Fn(u32) -> usize) {
        let Root::Global(index) = root else { return };
        let global = &self.program.globals[index];
        if global.space != AddressSpace::WorkGroup {
            return;
        }
        let worst = lanes.chunk_by(|a, b| *a as usize / BANKS == *b as usize / BANKS);
        let worst = worst.map(|lanes| degree(lanes.iter().map(|&lane| offset(lane)), bytes)).max().unwrap_or(1);
        let mut conflicts = self.program.conflicts.borrow_mut();
        let entry = conflicts.entry(global.name.clone()).or_insert(1);
        *entry = worst.max(*entry);
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::Program;
    use super::super::tests::{Programs, check};
    use super::*;
    use crate::gpu::dialect::Dialect;
    use crate::gpu::steps::product::choice::{TILES, Variant};
    use crate::gpu::testing::DIALECTS;
    use crate::ir::parse;
    use crate::testing::{Random, Tolerance};
    use std::cell::RefCell;
    use std::collections::{BTreeMap, HashMap};
    use std::rc::Rc;

    #[test]
    fn degrees() {
        let of = |stride: usize, bytes| degree((0..32).map(|lane| lane * stride), bytes);
        assert_eq!([0, 4, 8, 12, 64, 128, 132].map(|stride| of(stride, 4)), [1, 1, 2, 1, 16, 32, 1]);
        // Halves of one word are no conflict; vectors take four turns without one.
        assert_eq!((of(2, 2), of(16, 16), of(32, 16), of(144, 16)), (1, 1, 2, 1));
    }

    /// The worst degree of each variable of each kernel, of those with conflicts.
    fn conflicts(
        text: &str,
        product: Option<Variant>,
        edit: impl Fn(&str) -> String,
    ) -> BTreeMap<(&'static str, String), usize> {
        let mut programs = Programs::new();
        let names = RefCell::new(HashMap::new());
        let dialect = Dialect { workgroup_bytes: 49152, product, ..DIALECTS[0] };
        let tolerance = Tolerance::ulps(16).or_absolute(4e-3);
        check(&mut programs, &parse(text), &mut Random::new(1), tolerance, true, &[dialect], &|dispatch| {
            dispatch.source = edit(&dispatch.source);
            names.borrow_mut().insert(dispatch.source.clone(), dispatch.name);
        });
        let names = names.borrow();
        let of = |(source, program): (&String, &Rc<Program>)| {
            let conflicts = program.conflicts.borrow().clone();
            conflicts.into_iter().map(|(variable, degree)| ((names[source], variable), degree)).collect::<Vec<_>>()
        };
        let all: BTreeMap<_, _> = programs.iter().flat_map(of).collect();
        println!("{all:?}");
        assert!(!all.is_empty(), "no workgroup memory was accessed");
        all.into_iter().filter(|(_, degree)| *degree > 1).collect()
    }

    #[test]
    fn a_planted_conflict_is_counted() {
        let text = "%0 = input x float32 [2, 300]
                    %1 = cumulativeSum %0 axis=1
                    output y = %1";
        let [declared, passed] = ["var<workgroup> sums", "workgroupBarrier();"];
        let plant = |stride: u32| {
            conflicts(text, None, |source| {
                let planted = format!("planted[{stride}u * local] = 0.0; {passed}");
                let declaration = format!("var<workgroup> planted: array<f32, 4096>;\n{declared}");
                source.replacen(passed, &planted, 1).replace(declared, &declaration)
            })
        };
        assert_eq!(plant(16), [(("cumulativeSum", "planted".to_string()), 16)].into());
        assert_eq!(plant(15), BTreeMap::new());
    }

    #[test]
    fn kernels_of_rows_have_none() {
        for (shape, op) in [
            ("[40, 256]", "softmax %0 axis=1"),
            ("[2, 700]", "reduceSum %0 axes=[1]"),
            ("[10, 96]", "layerNormalization %0 _ _ axes=[1]"),
        ] {
            let text = format!("%0 = input x float32 {shape}\n%1 = {op}\noutput y = %1");
            assert_eq!(conflicts(&text, None, str::to_string), BTreeMap::new(), "{op}");
        }
    }

    #[test]
    fn products_have_none() {
        for variant in TILES.map(Variant::Tiled).into_iter().chain([Variant::Lines, Variant::Dots]) {
            for (transposed, b) in [(false, "[40, 72]"), (true, "[72, 40]")] {
                let rows = if matches!(variant, Variant::Tiled(_)) { 72 } else { 8 };
                let text = format!(
                    "%0 = input a float32 [{rows}, 40]
                     %1 = input b float32 {b}
                     %2 = gemm %0 %1 bTranspose={transposed}
                     output y = %2"
                );
                assert_eq!(conflicts(&text, Some(variant), str::to_string), BTreeMap::new(), "{variant:?}");
            }
        }
    }

    /// The keys of a block of rows are the known conflict.
    #[test]
    fn conflicts_of_attention() {
        for (rows, known) in [(33, &[("keys", 16), ("queries", 2), ("values", 2)][..]), (1, &[])] {
            let text = format!(
                "%0 = input q float32 [2, {rows}, 33]
                 %1 = input k float32 [2, 33, 300]
                 %2 = input v float32 [2, 300, 65]
                 %3 = matmul %0 %1
                 %4 = softmax %3 axis=2
                 %5 = matmul %4 %2
                 output y = %5"
            );
            let expected = known.iter().map(|&(variable, degree)| (("attention", variable.to_string()), degree));
            assert_eq!(conflicts(&text, None, str::to_string), expected.collect());
        }
    }
}
