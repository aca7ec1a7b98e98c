//! Attention: `softmax(scale * query * key^T, capped and masked) * value`, without a matrix of scores.
//!
//! Many queries are processed in [blocks](Attend); a few [stream](Stream) through keys and values instead. Both process
//! only the keys that masks leave visible, see [`SeenKeys`](super::masks::SeenKeys).

mod blocks;
mod sizes;
mod stream;

pub use blocks::Attend;
pub use sizes::Sizes;
pub use stream::{Combine, MAX_STREAMED, Stream, StreamedHead, partial_len};
