//! Elements as they are stored, for kernels that move them and do not look at them: one Rust type per size, so that
//! each kernel is compiled four times and not eight.

use crate::dtype::Element;
use half::f16;

/// A type that stands for every data type of its size.
pub trait Storage: Element {
    /// The element with the lowest bits of `bits`.
    fn from_low_bits(bits: u64) -> Self;
}

impl Storage for u8 {
    fn from_low_bits(bits: u64) -> u8 {
        bits as u8
    }
}

impl Storage for f16 {
    fn from_low_bits(bits: u64) -> f16 {
        f16::from_bits(bits as u16)
    }
}

impl Storage for u32 {
    fn from_low_bits(bits: u64) -> u32 {
        bits as u32
    }
}

impl Storage for u64 {
    fn from_low_bits(bits: u64) -> u64 {
        bits
    }
}

/// Runs `$body` with the type name `$T` standing for the [`Storage`] of elements of `$bytes` bytes.
#[macro_export]
macro_rules! with_storage {
    ($bytes:expr, $T:ident => $body:expr) => {
        match $bytes {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = half::f16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            bytes => unreachable!("no data type has {bytes} bytes"),
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType;

    #[test]
    fn every_data_type_has_a_storage() {
        for dtype in DataType::ALL {
            with_storage!(dtype.size(), T => {
                assert_eq!(size_of::<T>(), dtype.size());
                assert_eq!(T::from_low_bits(0), T::default(), "zero is all bits zero");
            });
        }
    }
}
