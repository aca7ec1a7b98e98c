//! The compiler's view of a backend, as plain data.

use crate::ops::Operation;

/// What the compiler needs to know of a backend.
pub struct Target {
    /// The passes that it has kernels for; with [`layout`](Passes::layout), its kernels prefer channels last.
    pub passes: Passes,
    /// Whether the kernel of an operator applies an epilogue to its result while the result is in cache.
    pub takes_epilogue: fn(&Operation) -> bool,
    /// How often the kernel of an operator reads the elements of the operand at an index, if a prologue computes that
    /// operand.
    pub reads: fn(&Operation, usize) -> Reads,
    /// How many tensors the kernel of an operator can read.
    pub operands: fn(&Operation) -> Operands,
    /// Whether its kernels compute in float16; otherwise, they only store it, see
    /// [`widen_halves`](super::widen_halves).
    pub computes_halves: bool,
    /// Alignment of values and views.
    pub granularity: Granularity,
}

/// How often the kernel of an operator reads the elements of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// About once each: a prologue costs no more than a kernel of its own.
    Once,
    /// Many times: a prologue pays only if recomputing costs less than the bytes saved.
    Often,
    /// The kernel cannot apply a prologue to this operand.
    Never,
}

/// Largest numbers of tensors that a kernel can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operands {
    /// All operands of a node, with those of its epilogue and its prologues.
    pub node: usize,
    /// The operands of a prologue.
    pub prologue: usize,
}

impl Operands {
    /// Any number.
    pub const ANY: Operands = Operands { node: usize::MAX, prologue: usize::MAX };
}

/// Alignment of offsets, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Granularity {
    /// For values and scratch memory in the arena.
    pub block: usize,
    /// For views within their source; views at other offsets need a step.
    pub view: usize,
}

macro_rules! passes {
    ($($(#[$meta:meta])* $name:ident,)*) => {
        /// The passes to run. Switching single passes off finds the one to blame.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Passes { $($(#[$meta])* pub $name: bool,)* }

        impl Passes {
            /// Every pass.
            pub const ALL: Passes = Passes { $($name: true,)* };
            /// No pass.
            pub const NONE: Passes = Passes { $($name: false,)* };
            /// Their names.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name),)*];

            /// The passes in both sets.
            pub const fn and(self, other: Passes) -> Passes {
                Passes { $($name: self.$name && other.$name,)* }
            }

            /// Removes the pass `name`; `None` if there is none.
            fn remove(&mut self, name: &str) -> Option<()> {
                match name {
                    $(stringify!($name) => self.$name = false,)*
                    _ => return None,
                }
                Some(())
            }

            /// The names of the enabled passes, in the order in which they run.
            pub fn enabled(&self) -> impl Iterator<Item = &'static str> {
                [$((stringify!($name), self.$name),)*].into_iter().filter(|(_, runs)| *runs).map(|(name, _)| name)
            }
        }
    };
}

passes! {
    /// Lets caches of sessions grow in place.
    growing,
    /// Computes nodes with constant operands.
    fold,
    /// Removes operators that change nothing.
    simplify,
    /// Replaces decomposed patterns of many operators by one.
    patterns,
    /// Computes only the rows that slices and gathers keep.
    rows,
    /// Merges operators that scale, shift and pad into convolutions.
    affine,
    /// Lets convolutional networks compute with channels last.
    layout,
    /// Replaces products of quantized tensors by operators on integers.
    quantized,
    /// Replaces products with weights of 4 or 8 bits by operators that read these as they are.
    weights,
    /// Moves element-wise operators into the epilogue of the product in front of them.
    epilogues,
    /// Merges chains of element-wise operators.
    chains,
    /// Moves an element-wise operator into its only reader, as a prologue; weights stay quantized.
    prologues,
    /// Moves products of the same left operand next to each other; they are one step.
    beside,
    /// Lets views share memory.
    views,
    /// Computes 3 by 3 convolutions by Winograd's algorithm where that pays.
    winograd,
}

impl Passes {
    /// Every pass except those in `names`, separated by commas, or `all`; `None` for an unknown name.
    pub fn without(names: &str) -> Option<Passes> {
        if names == "all" {
            return Some(Passes::NONE);
        }
        let mut passes = Passes::ALL;
        names.split(',').try_for_each(|name| passes.remove(name.trim()))?;
        Some(passes)
    }
}
