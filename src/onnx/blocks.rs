//! The number of channels in a block of `com.microsoft.nchwc`, the layout of models that onnxruntime saved after all of
//! its optimizations. The machine that saved a model decided it, and the file does not state it. But the channels fill
//! up whole blocks, so the numbers of channels tell the size in most models, and the order of the weights in trained
//! ones.

use super::error::{ModelError, Result};
use super::file::Files;
use super::graph::{Arena, ByName, GraphId, NameId, Node};
use super::model::Model;
use super::tensor::{ElementType, TensorRecord};

/// The domain of operators on channels in blocks.
pub const DOMAIN: &str = "com.microsoft.nchwc";

/// The sizes that onnxruntime uses.
const SIZES: [u32; 2] = [8, 16];

/// Maximum number of weights to examine.
const MAX_WEIGHTS: usize = 1 << 22;

/// How much more likely one order must be, per square root of the number of groups: random weights stay below 6.
const SIGNIFICANT: f64 = 25.0;

impl Model {
    /// The number of channels in a block; `None` for a model without channels in blocks.
    ///
    /// # Errors
    /// If nodes or weights are damaged.
    pub fn block_size(&self) -> Result<Option<u32>> {
        let find = || {
            let mut evidence = Evidence::of(self);
            evidence.graph(self.main)?;
            Ok(evidence.size())
        };
        self.known_block_size.get_or_init(find).clone()
    }
}

/// The block size that onnxruntime uses on this machine.
fn native() -> u32 {
    #[cfg(target_arch = "x86_64")]
    if !is_x86_feature_detected!("avx512f") {
        return SIZES[0];
    }
    SIZES[1]
}

/// What nodes and weights tell about the size.
struct Evidence<'m> {
    arena: &'m Arena,
    files: &'m Files,
    /// Values in blocks, with the number of their channels, including those that fill up the last block, if known.
    blocked: ByName<Option<u32>>,
    /// Whether there are channels in blocks.
    is_used: bool,
    /// Whether a number of channels is impossible with blocks of the other size.
    only: [bool; 2],
    /// The logarithm of how much more likely the weights are in blocks of 16 than in blocks of 8.
    likelihood: f64,
    /// Number of groups of 16 filters in it, and number of weights.
    groups: usize,
    weights: usize,
}

impl<'m> Evidence<'m> {
    fn of(model: &'m Model) -> Evidence<'m> {
        let (arena, files, blocked) = (&model.arena, &*model.files, ByName::default());
        Evidence { arena, files, blocked, is_used: false, only: [false; 2], likelihood: 0.0, groups: 0, weights: 0 }
    }

    /// The size.
    fn size(&self) -> Option<u32> {
        let [only_small, only_large] = self.only;
        let is_large = match (only_small, only_large) {
            (true, _) => false,
            (_, true) => true,
            _ if self.likelihood.abs() > SIGNIFICANT * (self.groups as f64).sqrt() => self.likelihood > 0.0,
            // Like onnxruntime, which cannot use files of other machines.
            _ => native() == SIZES[1],
        };
        self.is_used.then_some(SIZES[is_large as usize])
    }

    /// Takes `count` channels in whole blocks into account.
    fn whole_blocks(&mut self, count: u32) {
        self.only[0] |= !count.is_multiple_of(SIZES[1]);
    }

    fn graph(&mut self, graph: GraphId) -> Result<()> {
        for &id in &self.arena.graph(graph).nodes {
            let node = self.arena.node(id);
            if node.operator().is_one_of(&["If", "Loop", "Scan"]) {
                node.graphs().try_for_each(|graph| self.graph(graph))?;
                continue;
            }
            let channels = self.node(node)?;
            if let (Some(channels), Some(output)) = (channels, node.output(0)) {
                self.blocked.insert(output, channels);
            }
        }
        Ok(())
    }

    /// Takes a node into account; the number of its output's channels if the output is in blocks.
    fn node(&mut self, node: Node) -> Result<Option<Option<u32>>> {
        let arena = self.arena;
        let constant = |index: usize| arena.initializer(node.input(index)?);
        let first = node.input(0).and_then(|value| self.blocked.get(&value).copied());
        let operator = node.operator();
        if operator.domain != DOMAIN {
            return Ok(match operator.name.as_str() {
                "Concat" => first.map(|_| {
                    let of = |value: &Option<NameId>| self.blocked.get(&(*value)?).copied().flatten();
                    node.inputs().iter().map(of).try_fold(0u32, |sum, channels| sum.checked_add(channels?))
                }),
                "Reshape" if first.is_some() => {
                    self.reshape(constant(1))?;
                    Some(None)
                }
                _ => first,
            });
        }
        self.is_used = true;
        match operator.name.as_str() {
            "Conv" => {
                let Some(filter) = constant(1) else { return Ok(Some(None)) };
                self.conv(filter, node.int("group").unwrap_or(1), first.is_some())?;
                Ok(Some(filter.shape.first().copied()))
            }
            "ReorderInput" => Ok(Some(None)),
            "ReorderOutput" => {
                if let (Some(Some(all)), Some(kept)) = (first, node.int("channels")) {
                    self.only[1] |= (all as i64).saturating_sub(kept) >= SIZES[0] as i64;
                }
                Ok(None)
            }
            _ => Ok(Some(first.flatten())),
        }
    }

    /// A reshaping that separates the channels of a block: `[0, blocks, 0, 0, size]`.
    fn reshape(&mut self, shape: Option<&TensorRecord>) -> Result<()> {
        let Some(shape) = shape.filter(|shape| shape.shape == [5] && !shape.is_sparse()) else { return Ok(()) };
        let mut last = 0.0;
        shape.load(self.files)?.visit(|number| last = number.to_f64()).map_err(ModelError::new)?;
        self.only.iter_mut().zip(SIZES).for_each(|(only, size)| *only |= last == size as f64);
        Ok(())
    }

    /// A convolution, whose input is in blocks or not.
    fn conv(&mut self, filter: &TensorRecord, groups: i64, is_blocked: bool) -> Result<()> {
        let [outputs, inputs, height, width] = filter.shape[..] else { return Ok(()) };
        self.whole_blocks(outputs);
        if groups > 1 && inputs > 1 {
            self.whole_blocks(inputs);
            self.whole_blocks(outputs / u32::try_from(groups).unwrap_or(u32::MAX));
        } else if groups <= 1 && is_blocked {
            self.whole_blocks(inputs);
        } else if groups <= 1 {
            // Channels that do not fill one block are read as they are.
            self.only[1] |= inputs >= SIZES[0];
        }
        let each = inputs as usize * height as usize * width as usize;
        let is_undecided = self.only == [false; 2] && self.weights < MAX_WEIGHTS;
        let is_dense_float = filter.element == ElementType::Float && !filter.is_sparse();
        // Unreadable weights are not evidence; the translation of the node reports them.
        if outputs.is_multiple_of(SIZES[1])
            && is_undecided
            && each > 1
            && is_dense_float
            && let Ok(weights) = filter.load(self.files)
        {
            self.compare(&weights.bytes, each);
        }
        Ok(())
    }

    /// Compares the two orders of the weights of whole groups of 16 filters of `each` weights. In trained networks,
    /// filters differ in size. Read in the wrong order, they are mixed, and differ less.
    fn compare(&mut self, bytes: &[u8], each: usize) {
        for group in bytes.chunks_exact(SIZES[1] as usize * each * size_of::<f32>()) {
            let mut sums = [[(0.0f64, 0.0f64); 16]; 2];
            for (at, bytes) in group.as_chunks::<4>().0.iter().enumerate() {
                let square = (f32::from_le_bytes(*bytes) as f64).powi(2);
                // The filters of a block are the innermost dimension, and the blocks the outermost one.
                for (sums, place) in sums.iter_mut().zip([at / (8 * each) * 8 + at % 8, at % 16]) {
                    let (sum, count) = &mut sums[place];
                    // The zeros that pad a block are not weights.
                    (*sum, *count) = (*sum + square, *count + if square == 0.0 { 0.0 } else { 1.0 });
                }
            }
            let term = |(sum, count): (f64, f64)| if count == 0.0 { 0.0 } else { count / 2.0 * (sum / count).ln() };
            let [small, large] = sums.map(|sums| sums.into_iter().map(term).sum::<f64>());
            if (small - large).is_finite() {
                self.likelihood += small - large;
                self.groups += 1;
            }
            self.weights += SIZES[1] as usize * each;
            if self.weights >= MAX_WEIGHTS {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::*;

    fn size(graph: TestGraph) -> Option<u32> {
        Model::decode(graph.encode(17), Files::default()).unwrap().block_size().unwrap()
    }

    fn filter(graph: TestGraph, name: &str, dims: [i64; 4]) -> TestGraph {
        graph.floats(name, &dims, &vec![1.0; dims.iter().product::<i64>() as usize])
    }

    /// A convolution of `x`, in blocks or not, with a filter of this shape that reads `channels` channels.
    fn conv(is_blocked: bool, dims: [i64; 4], group: i64, channels: i64) -> TestGraph {
        let graph = filter(TestGraph::default().input("x", Float, &["1", "64", "5", "5"]), "w", dims);
        let graph = graph.node("com.microsoft.nchwc.ReorderInput", "x", "b", vec![]);
        let inputs = if is_blocked { "b w" } else { "x w" };
        graph
            .node("com.microsoft.nchwc.Conv", inputs, "c", vec![("group", Attr::Int(group))])
            .node("Relu", "c", "r", vec![])
            .node("com.microsoft.nchwc.MaxPool", "r", "p", vec![])
            .node("com.microsoft.nchwc.ReorderOutput", "p", "y", vec![("channels", Attr::Int(channels))])
            .output("y")
    }

    #[test]
    fn numbers_of_channels_tell_the_size() {
        assert_eq!(
            size(TestGraph::default().input("x", Float, &["1"]).node("Relu", "x", "y", vec![]).output("y")),
            None
        );
        for (is_blocked, dims, group, channels, expected) in [
            (true, [24, 16, 3, 3], 1, 24, 8),
            (true, [32, 24, 1, 1], 1, 32, 8),
            (true, [32, 32, 1, 1], 1, 24, 16),
            (true, [48, 16, 1, 1], 2, 48, 8),
            (true, [32, 8, 1, 1], 2, 32, 8),
            (true, [32, 8, 1, 1], 1, 32, 8),
            (false, [32, 8, 1, 1], 1, 32, 16),
            (false, [16, 12, 1, 1], 1, 16, 16),
            (false, [8, 3, 1, 1], 1, 8, 8),
            (false, [16, 3, 1, 1], 1, 4, 16),
            (true, [24, 1, 3, 3], 24, 24, 8),
            (true, [32, 16, 1, 1], 1, 32, native()),
        ] {
            assert_eq!(size(conv(is_blocked, dims, group, channels)), Some(expected), "{dims:?} {group} {channels}");
        }
    }

    #[test]
    fn separated_blocks_tell_the_size() {
        for expected in [8, 16] {
            let graph = conv(true, [32, 16, 1, 1], 1, 32).ints("shape", &[0, 32 / expected, 0, 0, expected]);
            assert_eq!(size(graph.node("Reshape", "c shape", "s", vec![])), Some(expected as u32));
        }
    }

    #[test]
    fn filters_of_different_size_tell_the_order() {
        let mut random = crate::testing::Random::new(3);
        for block in [8usize, 16] {
            let (outputs, each) = (32, 16 * 9);
            let sizes: Vec<f32> = (0..outputs).map(|_| 0.5 + random.uniform() as f32).collect();
            let at =
                |index: usize| sizes[index / (block * each) * block + index % block] * (random.uniform() as f32 - 0.5);
            let weights: Vec<f32> = (0..outputs * each).map(at).collect();
            let graph = TestGraph::default()
                .input("x", Float, &["1", "16", "5", "5"])
                .floats("w", &[32, 16, 3, 3], &weights)
                .node("com.microsoft.nchwc.ReorderInput", "x", "b", vec![])
                .node("com.microsoft.nchwc.Conv", "b w", "c", vec![])
                .node("com.microsoft.nchwc.ReorderOutput", "c", "y", vec![("channels", Attr::Int(32))])
                .output("y");
            assert_eq!(size(graph), Some(block as u32));
        }
    }

    #[test]
    fn zeros_that_fill_up_blocks_are_no_pattern() {
        let mut random = crate::testing::Random::new(4);
        // Of 32 input channels, in blocks of 16, the last 12 are unused.
        let is_used = |index: usize| index / (9 * 256) % 2 * 16 + index / 16 % 16 < 20;
        let weight = |index| if is_used(index) { random.uniform() as f32 - 0.5 } else { 0.0 };
        let weights: Vec<f32> = (0..32 * 32 * 9).map(weight).collect();
        let graph = TestGraph::default()
            .input("x", Float, &["1", "20", "5", "5"])
            .floats("w", &[32, 32, 3, 3], &weights)
            .node("com.microsoft.nchwc.ReorderInput", "x", "b", vec![])
            .node("com.microsoft.nchwc.Conv", "b w", "c", vec![])
            .node("com.microsoft.nchwc.ReorderOutput", "c", "y", vec![("channels", Attr::Int(32))])
            .output("y");
        assert_eq!(size(graph), Some(native()));
    }
}
