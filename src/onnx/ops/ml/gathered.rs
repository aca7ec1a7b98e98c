//! Decision trees for devices that have only the operators of the API: all rows go down all trees at once, a level at a
//! time.

use super::forest::Packed;
use super::scores::size;
use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::constants::check_generated;
use crate::onnx::error::Refusal;
use crate::ops::elementwise::Elementwise as E;
use crate::ops::extension::tree_ensemble::{Aggregate, TreeEnsemble};
use crate::ops::gather::GatherElements;
use crate::ops::reduce::ReduceKind;

/// Maximum number of levels of a tree: each has some ten operators.
const MAX_LEVELS: u32 = 256;

/// Trees with leaves behind the branches, which lead to themselves.
struct Nodes {
    features: OperandId,
    thresholds: OperandId,
    /// Where rows go whose feature is at most the threshold, or above.
    children: [OperandId; 2],
    /// Whether NaN counts as at most; `None` if it never does.
    missing: Option<OperandId>,
    /// The level of the deepest leaf.
    depth: u32,
}

impl Nodes {
    fn of(call: &mut Call, packed: &Packed) -> Step<Nodes> {
        let (branches, leaves) = (packed.branches.len(), packed.leaves.len() - 1);
        let count = branches + leaves;
        check_generated(count as u64)?;
        let node = |place: i32| if place >= 0 { place as usize } else { branches + !place as usize };
        let mut depths = vec![0u32; count];
        for (at, &[_, at_most, above, _]) in packed.branches.iter().enumerate().rev() {
            depths[at] = 1 + depths[node(at_most)].max(depths[node(above)]);
        }
        let depth = packed.roots.iter().map(|&root| depths[node(root)]).max().unwrap_or(0);
        if depth > MAX_LEVELS {
            return Err(Refusal(format!("a tree has {depth} levels, more than {MAX_LEVELS} on this device")));
        }
        let shape = [size(count)?];
        let mut column = |dtype: DataType, of_branch: &dyn Fn(usize) -> f64, of_leaf: &dyn Fn(usize) -> f64| {
            let numbers = (0..count).map(|at| if at < branches { of_branch(at) } else { of_leaf(at) });
            call.constant(dtype, &shape, numbers.map(|number| crate::dtype::Number::Float(number).cast(dtype)))
        };
        let place = |column: usize| move |at: usize| node(packed.branches[at][column]) as f64;
        let own = |at: usize| at as f64;
        let any_missing = packed.branches.iter().any(|branch| branch[3] != 0);
        Ok(Nodes {
            features: column(DataType::Int32, &|at| f64::from(packed.branches[at][0]), &|_| 0.0)?,
            thresholds: column(DataType::Float32, &|at| packed.thresholds[at], &|_| 0.0)?,
            children: [column(DataType::Int32, &place(1), &own)?, column(DataType::Int32, &place(2), &own)?],
            missing: match any_missing {
                true => Some(column(DataType::Uint8, &|at| f64::from(packed.branches[at][3]), &|_| 0.0)?),
                false => None,
            },
            depth,
        })
    }

    /// The places a level below `places`, `[rows, trees]`.
    fn next(&self, call: &mut Call, x: OperandId, places: OperandId) -> Step<OperandId> {
        let features = call.gather(self.features, places, 0)?;
        let values = call.emit(GatherElements { axis: 1 }, &[x, features])?;
        let thresholds = call.gather(self.thresholds, places, 0)?;
        let mut is_at_most = call.emit(E::LesserOrEqual, &[values, thresholds])?;
        if let Some(missing) = self.missing {
            let (missing, is_nan) = (call.gather(missing, places, 0)?, call.emit(E::IsNaN, &[values])?);
            let both = call.emit(E::LogicalAnd, &[missing, is_nan])?;
            is_at_most = call.emit(E::LogicalOr, &[is_at_most, both])?;
        }
        let [at_most, above] = self.children;
        let (at_most, above) = (call.gather(at_most, places, 0)?, call.gather(above, places, 0)?);
        call.select(is_at_most, at_most, above)
    }
}

/// Whether [`reached`] computes `op`.
pub fn computes(op: &TreeEnsemble) -> bool {
    matches!(op.aggregate, Aggregate::Sum | Aggregate::Average) && !op.marks_absent
}

/// What `op` computes of `x` and trees.
///
/// # Errors
/// If the trees are too large.
pub fn reached(call: &mut Call, x: OperandId, packed: &Packed, op: &TreeEnsemble) -> Step<OperandId> {
    let (branches, leaves, trees) = (packed.branches.len(), packed.leaves.len() - 1, packed.roots.len());
    let nodes = Nodes::of(call, packed)?;
    let roots =
        packed.roots.iter().map(|&root| if root >= 0 { root.into() } else { (branches + !root as usize) as i64 });
    let roots = call.constant(DataType::Int32, &[1, size(trees)?], roots)?;
    let shape = [call.shape(x)[0], Dim::from(size(trees)?)];
    let mut places = call.expand(roots, &shape)?;
    for _ in 0..nodes.depth {
        places = nodes.next(call, x, places)?;
    }
    // A row of weights for each place that is a leaf.
    let count = op.count as usize;
    check_generated((branches + leaves) as u64 * u64::from(op.count))?;
    call.check_lists((branches + leaves) * count * size_of::<f64>())?;
    let mut weights = vec![0.0f64; (branches + leaves) * count];
    for (leaf, votes) in packed.leaves.windows(2).enumerate() {
        for vote in votes[0] as usize..votes[1] as usize {
            weights[(branches + leaf) * count + packed.targets[vote] as usize] += packed.weights[vote];
        }
    }
    let weights = call.constant(DataType::Float32, &[size(branches + leaves)?, op.count], weights)?;
    let votes = call.gather(weights, places, 0)?;
    let sums = call.reduce(ReduceKind::Sum, votes, &[1], false)?;
    let factor = if op.aggregate == Aggregate::Average { 1.0 / trees as f64 } else { 1.0 };
    call.linear(sums, factor, 0.0)
}
