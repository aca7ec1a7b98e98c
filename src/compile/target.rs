//! What the compiler asks a backend, and what it is told to do. A backend is a [`Target`]: a value of plain answers.

use crate::error::Result;
use crate::ir::{Graph, Node};
use crate::memory::Buffer;
use crate::ops::Operation;

/// A backend, as far as the compiler has to know it.
pub struct Target {
    /// The passes that make operators which it has kernels for; with [`layout`](Passes::layout), kernels that prefer
    /// channels last.
    pub passes: Passes,
    /// Whether the kernel of an operator applies an epilogue to its result while that is in cache.
    pub takes_epilogue: fn(&Operation) -> bool,
    /// How often the kernel of an operator reads the elements of the operand at an index, which a prologue would compute.
    pub reads: fn(&Operation, usize) -> Reads,
    /// Where values and views may start.
    pub granularity: Granularity,
}

/// How often the kernel of an operator reads the elements of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// About once each: whatever comes before costs no more there than in a kernel of its own.
    Once,
    /// Many times: only what costs less than the bytes that it saves may be computed each time.
    Often,
    /// In a way that leaves no room for computing.
    Never,
}

/// What offsets must be multiples of, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Granularity {
    /// Those of values and scratch memory in the arena.
    pub block: usize,
    /// Those of views in what they are a part of; operators whose views would lie elsewhere need steps.
    pub view: usize,
}

/// Computes the bytes of the outputs of a node whose operands are all constants.
pub type Evaluate<'a> = &'a dyn Fn(&Graph, &Node) -> Result<Vec<Buffer>>;

macro_rules! passes {
    ($($(#[$meta:meta])* $name:ident,)*) => {
        /// Which passes run. Each can be switched off, to find out which one is to blame.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Passes { $($(#[$meta])* pub $name: bool,)* }

        impl Passes {
            /// Every pass.
            pub const ALL: Passes = Passes { $($name: true,)* };
            /// No pass.
            pub const NONE: Passes = Passes { $($name: false,)* };
            /// Their names.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name),)*];

            /// The passes that are in both.
            pub const fn and(self, other: Passes) -> Passes {
                Passes { $($name: self.$name && other.$name,)* }
            }

            /// Every pass but the one of that name; `None` if there is none.
            fn remove(&mut self, name: &str) -> Option<()> {
                match name {
                    $(stringify!($name) => self.$name = false,)*
                    _ => return None,
                }
                Some(())
            }

            /// The names of those that run, in the order in which they do.
            pub fn enabled(&self) -> impl Iterator<Item = &'static str> {
                [$((stringify!($name), self.$name),)*].into_iter().filter(|(_, runs)| *runs).map(|(name, _)| name)
            }
        }
    };
}

passes! {
    /// Lets caches of sessions grow where they are.
    growing,
    /// Computes nodes whose operands are constants.
    fold,
    /// Removes what changes nothing.
    simplify,
    /// Makes what is written out in many operators one.
    patterns,
    /// Computes only the rows that slices and gathers keep.
    rows,
    /// Makes what scales, shifts and pads convolutions part of them.
    affine,
    /// Lets networks of convolutions compute with channels last.
    layout,
    /// Makes products of quantized tensors operators on integers.
    quantized,
    /// Makes products with weights of 4 or 8 bits operators that read these as they are.
    weights,
    /// Makes element-wise operators the epilogue of the product that they follow.
    epilogues,
    /// Makes chains of element-wise operators one.
    chains,
    /// Moves an element-wise operator into the only operator that reads its result, as a prologue; weights stay quantized.
    prologues,
    /// Lets views share memory.
    views,
    /// Computes convolutions with 3 by 3 filters by Winograd's algorithm where that pays.
    winograd,
}

impl Passes {
    /// Every pass but those in `names`, separated by commas, or `all`; `None` for an unknown name.
    pub fn without(names: &str) -> Option<Passes> {
        if names == "all" {
            return Some(Passes::NONE);
        }
        let mut passes = Passes::ALL;
        names.split(',').try_for_each(|name| passes.remove(name.trim()))?;
        Some(passes)
    }
}
