//! The step for `triangular`.

use super::{Env, Run};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk;
use crate::dtype::Element;
use crate::ops::triangular::Triangular;
use crate::shape::Descriptor;
use crate::with_storage;

/// Copies one side of a diagonal and clears the other.
pub struct TriangularStep {
    /// Bytes per element.
    size: usize,
    rows: usize,
    columns: usize,
    upper: bool,
    diagonal: i64,
}

impl TriangularStep {
    /// Creates the step for `triangular()` of `input`.
    pub fn new(op: &Triangular, input: &Descriptor) -> TriangularStep {
        let [.., rows, columns] = input.sizes()[..] else { unreachable!("the rule requires rank 2") };
        TriangularStep {
            size: input.dtype.size(),
            rows: rows as usize,
            columns: columns as usize,
            upper: op.upper,
            diagonal: op.diagonal as i64,
        }
    }

    fn run_as<T: Element>(&self, env: &Env, io: &mut Io) {
        let (input, output) = (io.input::<T>(0), io.output::<T>());
        for_each_chunk(env.threads, output, self.columns, 1, self.columns, |first, part| {
            let input = input[first * self.columns..].chunks_exact(self.columns);
            for (row, (out, input)) in (first..).zip(part.chunks_exact_mut(self.columns).zip(input)) {
                // The first column of the upper part, or the first one after the lower part.
                let bound = (row % self.rows) as i64 + self.diagonal + !self.upper as i64;
                let bound = bound.clamp(0, self.columns as i64) as usize;
                let kept = if self.upper { bound..self.columns } else { 0..bound };
                let cleared = if self.upper { 0..bound } else { bound..self.columns };
                out[kept.clone()].copy_from_slice(&input[kept]);
                out[cleared].fill(T::default());
            }
        });
    }
}

impl Run for TriangularStep {
    fn kernel(&self) -> &'static str {
        "triangular"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        with_storage!(self.size, T => self.run_as::<T>(env, io))
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::DataType;
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};

    fn check_op(dtype: DataType, shape: &[u32], upper: bool, diagonal: i32) {
        let text = format!(
            "%0 = input x {dtype} {shape:?}\n%1 = triangular %0 upper={upper} diagonal={diagonal}\noutput y = %1"
        );
        check(&parse(&text), Tolerance::EXACT);
    }

    #[test]
    fn every_diagonal() {
        for diagonal in [i32::MIN, -6, -5, -4, -1, 0, 1, 3, 4, 5, i32::MAX] {
            for upper in [true, false] {
                check_op(DataType::Float32, &[5, 4], upper, diagonal);
                check_op(DataType::Int64, &[2, 3, 4, 5], upper, diagonal);
            }
        }
        for dtype in DataType::OF_VALUES {
            check_op(dtype, &[1, 1], true, 0);
            check_op(dtype, &[2, 3, 3], false, -1);
        }
        check_op(DataType::Float16, &[3, 200, 300], true, 7);
    }
}
