//! Supports tensors above the binding size limit: the kernel binds several pieces, and each access selects the piece
//! that its index falls into. Any kernel can be rewritten like this; kernels for tensors of common sizes are not,
//! because selecting a piece takes time.

use crate::compile::memory::Place;
use std::fmt::Write;

/// WGSL array element types and their sizes in bytes.
const TYPES: [(&str, usize); 10] = [
    ("f32", 4),
    ("i32", 4),
    ("u32", 4),
    ("f16", 2),
    ("i64_value", 8),
    ("u64_value", 8),
    ("vec2<u32>", 8),
    ("vec4<u32>", 16),
    ("vec4<f16>", 8),
    ("vec4<f32>", 16),
];

/// Rewrites a kernel to bind pieces of at most `most` bytes, a multiple of 256. `places` are the places of the bindings
/// of `source` from 1 on; returns the new source and places.
///
/// # Errors
/// The reason why an array cannot be split into pieces.
pub fn split(source: &str, places: &[Place], most: usize) -> Result<(String, Vec<Place>), String> {
    let counts: Vec<usize> = places.iter().map(|place| place.bytes.next_multiple_of(8).div_ceil(most).max(1)).collect();
    let mut text = source.to_string();
    // From the last binding to the first: a new number never collides with an earlier binding.
    for index in (0..places.len()).rev() {
        let first = 1 + counts[..index].iter().sum::<usize>();
        text = divided(&text, index + 1, first, counts[index], most)?;
    }
    let pieces = places.iter().zip(&counts).flat_map(|(place, &count)| {
        (0..count).map(move |piece| match count {
            1 => *place,
            _ => Place { offset: place.offset + piece * most, bytes: most.min(place.bytes - piece * most), ..*place },
        })
    });
    Ok((text, pieces.collect()))
}

/// Replaces the array of a binding by `count` arrays of `most` bytes, bound from `first` on.
fn divided(text: &str, binding: usize, first: usize, count: usize, most: usize) -> Result<String, String> {
    let declaration = |binding: usize| format!("@group(0) @binding({binding}) var<storage, read_write> ");
    let (before, rest) =
        text.split_once(&declaration(binding)).ok_or_else(|| format!("no declaration of binding {binding}"))?;
    if count == 1 {
        return Ok([before, &declaration(first), rest].concat());
    }
    let (name, rest) = rest.split_once(": array<").ok_or_else(|| format!("binding {binding} is no array"))?;
    let (element, rest) = rest.split_once(">;\n").ok_or_else(|| format!("{name} has no end"))?;
    let (_, bytes) =
        TYPES.iter().find(|(known, _)| *known == element).ok_or_else(|| format!("{name} is an array of {element}"))?;
    let words = most / bytes;
    let mut arrays = String::new();
    let (mut get, mut put) = (String::new(), String::new());
    for piece in 0..count {
        let _ = writeln!(arrays, "{}{name}{piece}: array<{element}>;", declaration(first + piece));
        let place = format!("{name}{piece}[i - {}u]", piece * words);
        let end = (piece + 1) * words;
        if piece + 1 < count {
            let _ = writeln!(get, "  if (i < {end}u) {{ return {place}; }}");
            let _ = writeln!(put, "  if (i < {end}u) {{ {place} = x; return; }}");
        } else {
            let _ = writeln!(get, "  return {place};");
            let _ = writeln!(put, "  {place} = x;");
        }
    }
    let functions =
        format!("fn get_{name}(i: u32) -> {element} {{\n{get}}}\nfn put_{name}(i: u32, x: {element}) {{\n{put}}}\n");
    let access = format!("{name}[");
    Ok([accesses(before, &access, name)?, arrays, functions, accesses(rest, &access, name)?].concat())
}

/// Replaces the reads and writes of an array's elements by function calls.
fn accesses(text: &str, access: &str, name: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = find(rest, access) {
        if rest[..at].ends_with('&') {
            return Err(format!("{name} is used by reference"));
        }
        out.push_str(&rest[..at]);
        let inner = &rest[at + access.len()..];
        let end = closing(inner).ok_or_else(|| format!("an index of {name} has no end"))?;
        let index = accesses(&inner[..end], access, name)?;
        rest = &inner[end + 1..];
        match rest.strip_prefix(" = ") {
            Some(value) => {
                let end = value.find(';').ok_or_else(|| format!("what {name} is set to has no end"))?;
                let _ = write!(out, "put_{name}({index}, {})", accesses(&value[..end], access, name)?);
                rest = &value[end..];
            }
            None => {
                let _ = write!(out, "get_{name}({index})");
            }
        }
    }
    Ok(out + rest)
}

/// Finds `access` where it does not continue a longer name.
fn find(text: &str, access: &str) -> Option<usize> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(access).map(|(at, _)| at).find(|&at| !text[..at].ends_with(is_name))
}

/// Finds the bracket that closes the one opened at the start of `text`.
fn closing(text: &str) -> Option<usize> {
    let mut open = 1;
    text.char_indices().find_map(|(at, c)| {
        open += (c == '[') as i32 - (c == ']') as i32;
        (open == 0).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::memory::Space;

    const SOURCE: &str = "@group(0) @binding(0) var<storage, read> parameters: array<u32>;
@group(0) @binding(1) var<storage, read_write> x_words: array<u32>;
@group(0) @binding(2) var<storage, read_write> words: array<f32>;
fn f(i: u32) -> f32 { return words[x_words[i] + x_words[words_at[0]]]; }
fn g(i: u32) { words[i] = words[i + 1u] + f(i); }
";

    fn place(offset: usize, bytes: usize) -> Place {
        Place { space: Space::Arena, offset, bytes }
    }

    #[test]
    fn small_tensors_are_only_renumbered() {
        let places = [place(0, 256), place(512, 250)];
        let (text, pieces) = split(SOURCE, &places, 256).unwrap();
        assert_eq!((text.as_str(), pieces.as_slice()), (SOURCE, &places[..]));
    }

    #[test]
    fn large_tensors_are_accessed_in_pieces() {
        let (text, pieces) = split(SOURCE, &[place(0, 256), place(512, 700)], 256).unwrap();
        assert_eq!(pieces, [place(0, 256), place(512, 256), place(768, 256), place(1024, 188)]);
        let expected = "@group(0) @binding(0) var<storage, read> parameters: array<u32>;
@group(0) @binding(1) var<storage, read_write> x_words: array<u32>;
@group(0) @binding(2) var<storage, read_write> words0: array<f32>;
@group(0) @binding(3) var<storage, read_write> words1: array<f32>;
@group(0) @binding(4) var<storage, read_write> words2: array<f32>;
fn get_words(i: u32) -> f32 {
  if (i < 64u) { return words0[i - 0u]; }
  if (i < 128u) { return words1[i - 64u]; }
  return words2[i - 128u];
}
fn put_words(i: u32, x: f32) {
  if (i < 64u) { words0[i - 0u] = x; return; }
  if (i < 128u) { words1[i - 64u] = x; return; }
  words2[i - 128u] = x;
}
fn f(i: u32) -> f32 { return get_words(x_words[i] + x_words[words_at[0]]); }
fn g(i: u32) { put_words(i, get_words(i + 1u) + f(i)); }
";
        assert_eq!(text, expected);
        let (text, pieces) = split(SOURCE, &[place(0, 257), place(512, 4)], 256).unwrap();
        assert_eq!(pieces, [place(0, 256), place(256, 1), place(512, 4)]);
        assert!(text.contains("@binding(3) var<storage, read_write> words: array<f32>;"), "{text}");
        assert!(text.contains("words[get_x_words(i) + get_x_words(words_at[0])]"), "{text}");
    }

    #[test]
    fn arrays_used_by_reference_are_refused() {
        let text = "@group(0) @binding(1) var<storage, read_write> a: array<u32>;\nfn f() { g(&a[0]); }\n";
        assert_eq!(split(text, &[place(0, 300)], 256).unwrap_err(), "a is used by reference");
    }
}
