//! Identifies files that are not models: passing a wrong file is a more frequent mistake than passing a damaged model.

/// Number of bytes to examine.
const HEAD_BYTES: usize = 512;

/// Magic numbers of other formats: offset, bytes, and the format's name.
const MARKS: [(usize, &[u8], &str); 15] = [
    (0, b"version https://git-lfs.", "a pointer of Git LFS, whose content was not fetched (git lfs pull)"),
    (0, b"\x93NUMPY", "an array of NumPy"),
    (0, b"PK\x03\x04", "a ZIP archive, as PyTorch, Keras and NumPy write them"),
    (0, b"\x1f\x8b", "compressed with gzip"),
    (0, b"\x28\xb5\x2f\xfd", "compressed with Zstandard"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes them"),
    (0, b"GGUF", "a GGUF model"),
    (4, b"TFL3", "a TensorFlow Lite model"),
    (4, b"ORTM", "a model in the ORT format of ONNX Runtime"),
    (8, b"{\"", "a safetensors file"),
    (0, b"\x80\x02", "a Python pickle"),
    (0, b"\x89PNG", "a PNG picture"),
    (0, b"\xff\xd8\xff", "a JPEG picture"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"\x7fELF", "a program or library"),
];

/// Guesses the format of `bytes`, which are not an ONNX file; `None` if nothing indicates one.
pub fn format_of(bytes: &[u8]) -> Option<&'static str> {
    let stands = |(at, mark, _): &&(usize, &[u8], &str)| bytes.get(*at..).is_some_and(|rest| rest.starts_with(mark));
    MARKS.iter().find(stands).map(|(.., format)| *format).or_else(|| text_format(&bytes[..bytes.len().min(HEAD_BYTES)]))
}

/// Guesses the format of a text file from its start.
fn text_format(head: &[u8]) -> Option<&'static str> {
    if head.is_empty() {
        return None;
    }
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The head may end within a character.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&head[..error.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    if text.contains(|character: char| character.is_control() && !character.is_whitespace()) {
        return None;
    }
    let start = text.trim_start_matches('\u{feff}').trim_start();
    match start.bytes().next() {
        Some(b'{' | b'[') => Some("JSON"),
        Some(b'<') => Some("HTML or XML"),
        _ => Some("text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognized() {
        for (bytes, format) in [
            (&b" {\n \"model_type\": \"bert\"}"[..], "JSON"),
            (b"\xef\xbb\xbf[1]", "JSON"),
            (b"<!doctype html>", "HTML or XML"),
            ("na\u{ef}ve\r\n\tx".as_bytes(), "text"),
            (
                b"version https://git-lfs.github.com/spec/v1\noid",
                "a pointer of Git LFS, whose content was not fetched (git lfs pull)",
            ),
            (b"\x40\0\0\0\0\0\0\0{\"w\":", "a safetensors file"),
            (b"\x1c\0\0\0TFL3", "a TensorFlow Lite model"),
        ] {
            assert_eq!(format_of(bytes), Some(format), "{bytes:?}");
        }
        let mut cut = vec![b'a'; HEAD_BYTES - 1];
        cut.extend("\u{e4}".bytes());
        assert_eq!(format_of(&cut), Some("text"), "a character on the edge");
    }

    #[test]
    fn damaged_models_match_no_other_format() {
        for bytes in [&b""[..], b"\xff\xff\xff", b"\x08\x07\x12\x07pytorch", b"abc\0def", b"\x08"] {
            assert_eq!(format_of(bytes), None, "{bytes:?}");
        }
    }
}
