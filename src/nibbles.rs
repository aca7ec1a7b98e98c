//! 4-bit integers, two per byte, the first one in the low bits.

/// Packs the low 4 bits of `numbers`, two per byte. The last byte may be half filled.
pub fn packed(numbers: &[u8]) -> Vec<u8> {
    numbers.chunks(2).map(|pair| pair[0] & 15 | pair.get(1).map_or(0, |high| high << 4)).collect()
}

/// Unpacks the first `count` integers in `bytes`, one per byte: from 0 to 15, or, if signed, from -8 to 7 in two's
/// complement.
///
/// # Panics
/// If there are fewer.
pub fn unpacked(bytes: &[u8], count: usize, is_signed: bool) -> Vec<u8> {
    let sign = |nibble: u8| if is_signed { ((nibble << 4) as i8 >> 4) as u8 } else { nibble };
    let mut numbers = Vec::with_capacity(bytes.len() * 2);
    numbers.extend(bytes[..count.div_ceil(2)].iter().flat_map(|byte| [sign(byte & 15), sign(byte >> 4)]));
    numbers.truncate(count);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacking_inverts_packing() {
        for count in [0, 1, 2, 7, 16] {
            let numbers: Vec<u8> = (0..count).map(|i| i * 5 % 16).collect();
            assert_eq!(packed(&numbers).len(), count.div_ceil(2) as usize);
            assert_eq!(unpacked(&packed(&numbers), count as usize, false), numbers);
            let signed: Vec<u8> = (0..count).map(|i| (i as i8 * 3 % 8 - 1) as u8).collect();
            assert_eq!(unpacked(&packed(&signed), count as usize, true), signed);
        }
        assert_eq!(packed(&[0xf1, 2, 3]), [0x21, 3]);
    }
}
