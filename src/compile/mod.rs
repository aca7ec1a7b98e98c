//! The compiler: passes that rewrite a graph, one per file, and the memory plan. Nothing here knows a backend.

pub mod fold;
pub mod fuse;
pub mod memory;
pub mod simplify;
pub mod transposed;
pub mod views;

use crate::error::Result;
use crate::ir::{Graph, Node};
use crate::memory::Buffer;

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

            /// Every pass but the one of that name; `None` if there is none.
            fn remove(&mut self, name: &str) -> Option<()> {
                match name {
                    $(stringify!($name) => self.$name = false,)*
                    _ => return None,
                }
                Some(())
            }
        }
    };
}

passes! {
    /// Computes nodes whose operands are constants.
    fold,
    /// Removes what changes nothing.
    simplify,
    /// Makes unary operators the epilogue of what they follow.
    epilogues,
    /// Makes chains of element-wise operators one.
    chains,
    /// Lets views share memory.
    views,
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

/// Runs the passes on `graph`.
///
/// # Errors
/// An `UnknownError` when there is no memory for folded constants, an `OperationError` when a mapped one cannot be read.
pub fn optimize(graph: &mut Graph, passes: Passes, evaluate: Evaluate) -> Result<()> {
    if passes.simplify {
        // Before constants are folded, which would transpose them.
        transposed::transpose_in_products(graph);
        check(graph);
    }
    if passes.fold {
        fold::fold(graph, evaluate)?;
        check(graph);
    }
    if passes.simplify {
        simplify::simplify(graph);
        check(graph);
    }
    if passes.epilogues {
        fuse::fuse_epilogues(graph);
        check(graph);
    }
    if passes.chains {
        fuse::fuse_chains(graph);
        check(graph);
    }
    Ok(())
}

fn check(graph: &Graph) {
    if cfg!(debug_assertions) {
        graph.verify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_by_name() {
        assert_eq!(Passes::without("all"), Some(Passes::NONE));
        assert_eq!(Passes::without("fold"), Some(Passes { fold: false, ..Passes::ALL }));
        assert_eq!(Passes::without("fold, nonsense"), None);
    }
}
