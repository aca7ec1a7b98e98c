//! Operands that are broadcast to the shape of an output.

use crate::cpu::kernels::stored::Stored;
use crate::cpu::simd::Isa;

/// Maximum dimensions of a view.
pub const MAX_DIMENSIONS: usize = 16;

/// The dimensions of the output, with the strides of one operand in elements; 0 where it repeats. Neighboring
/// dimensions are merged if possible.
pub struct View(Vec<Axis>);

/// A dimension of a view.
struct Axis {
    dim: usize,
    stride: usize,
}

impl View {
    /// Creates the view from dimensions and strides, and merges them.
    pub fn new(dims: &[usize], strides: &[usize]) -> View {
        let mut view = View(Vec::new());
        view.resize(dims, strides);
        view
    }

    /// Becomes the view of these dimensions and strides, in the memory that it has.
    pub fn resize(&mut self, dims: &[usize], strides: &[usize]) {
        let View(axes) = self;
        axes.clear();
        axes.reserve_exact(dims.iter().filter(|dim| **dim != 1).count().max(1));
        for (&dim, &stride) in dims.iter().zip(strides).filter(|(dim, _)| **dim != 1) {
            match axes.last_mut() {
                Some(last) if last.stride == stride * dim => *last = Axis { dim: last.dim * dim, stride },
                _ => axes.push(Axis { dim, stride }),
            }
        }
        if axes.is_empty() {
            axes.push(Axis { dim: 1, stride: 1 });
        }
    }

    /// Whether a single stride leads from each element to the next.
    pub fn is_single(&self) -> bool {
        self.0.len() == 1
    }

    /// The maximum length of runs with a single stride, and that stride.
    pub fn inner(&self) -> (usize, usize) {
        let Axis { dim, stride } = self.0[self.0.len() - 1];
        (dim, stride)
    }

    /// All dimensions but the last one, with their indices.
    fn outer(&self) -> impl DoubleEndedIterator<Item = (usize, &Axis)> {
        self.0[..self.0.len() - 1].iter().enumerate()
    }

    /// The position in the operand for the element at `index` of the output.
    pub fn offset(&self, mut index: usize) -> usize {
        let mut offset = 0;
        for Axis { dim, stride } in self.0[1..].iter().rev() {
            offset += index % dim * stride;
            index /= dim;
        }
        offset + index * self.0[0].stride
    }
}

/// Reads the elements of `x` through `view`, starting at the output's position `at`.
pub fn read_view<T: Stored>(isa: Isa, view: &View, x: &[T], at: usize, out: &mut [T::Lane]) {
    let (inner, stride) = view.inner();
    let column = at % inner;
    if let [Axis { stride: 0, .. }, Axis { stride: 1, .. }] = view.0[..] {
        return repeat(isa, &x[..inner], column, out);
    }
    let mut rows = ViewRows::new(view, at / inner);
    let (mut done, mut start) = (0, column);
    while done < out.len() {
        let run = (inner - start).min(out.len() - done);
        let (from, out) = (rows.offset + start * stride, &mut out[done..done + run]);
        match stride {
            0 => out.fill(x[from].lane()),
            1 => T::copy(isa, &x[from..from + run], out),
            _ => out.iter_mut().zip(x[from..].iter().step_by(stride)).for_each(|(out, x)| *out = x.lane()),
        }
        (done, start) = (done + run, 0);
        rows.advance();
    }
}

/// Fills `out` by cycling through the elements of `x`, starting at index `start`.
fn repeat<T: Stored>(isa: Isa, x: &[T], start: usize, out: &mut [T::Lane]) {
    let head = (x.len() - start).min(out.len());
    let period = x.len().min(out.len());
    T::copy(isa, &x[start..start + head], &mut out[..head]);
    T::copy(isa, &x[..period - head], &mut out[head..period]);
    let mut filled = period;
    while filled < out.len() {
        let more = filled.min(out.len() - filled);
        out.copy_within(..more, filled);
        filled += more;
    }
}

/// Iterates over all dimensions of a view except the last one.
struct ViewRows<'a> {
    view: &'a View,
    index: [usize; MAX_DIMENSIONS],
    offset: usize,
}

impl<'a> ViewRows<'a> {
    fn new(view: &'a View, mut row: usize) -> ViewRows<'a> {
        let (mut index, mut offset) = ([0; MAX_DIMENSIONS], 0);
        for (axis, Axis { dim, stride }) in view.outer().rev() {
            index[axis] = row % dim;
            row /= dim;
            offset += index[axis] * stride;
        }
        ViewRows { view, index, offset }
    }

    fn advance(&mut self) {
        for (axis, Axis { dim, stride }) in self.view.outer().rev() {
            self.index[axis] += 1;
            self.offset += stride;
            if self.index[axis] < *dim {
                return;
            }
            self.index[axis] = 0;
            self.offset -= dim * stride;
        }
    }
}
