//! Operators that look into texts. They are computed on the host, in runs of sessions.

pub mod ngrams;
pub mod numbers;
pub mod tokens;

use crate::dimension::numbers as sizes_of;
use crate::dtype::DataType;
use crate::error::amount;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::{Refusal, quoted};
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::onnx::text_list::TextList;
use crate::shape::{Descriptor, broadcast};
use regex::Regex;
use std::borrow::Cow;
use std::collections::HashSet;

/// Joins the texts of two tensors, which are broadcast, one by one.
fn concat(call: &mut Call) -> Outcome {
    let shapes = [call.input_shape(0)?, call.input_shape(1)?];
    let [a, b] = &shapes;
    let shape = broadcast(a, b).ok_or_else(|| format!("shapes {a:?} and {b:?} cannot be broadcast"))?;
    let sizes = sizes_of(&shape);
    let mut sides = Vec::with_capacity(2);
    for index in [0, 1] {
        let texts = match call.value(index) {
            Some(Value::Texts(id)) if !sizes.contains(&0) => {
                let expanded = call.expand(id, &shape[..])?;
                call.texts_of(expanded)?
            }
            _ => call.read_texts(index)?,
        };
        sides.push(texts);
    }
    let joined = sides[0].iter().zip(sides[1].iter()).map(|(a, b)| [a, b].concat());
    Ok(vec![call.made_texts(&sizes, joined)?])
}

/// Changes the letters of texts as the C library's `towlower` and `towupper` do: none becomes several.
fn with_case(text: &str, upper: bool) -> String {
    fn single(mut letters: impl Iterator<Item = char>, letter: char) -> char {
        match (letters.next(), letters.next()) {
            (Some(changed), None) => changed,
            _ => letter,
        }
    }
    let changed = |letter: char| match upper {
        true => single(letter.to_uppercase(), letter),
        false => single(letter.to_lowercase(), letter),
    };
    text.chars().map(changed).collect()
}

/// Leaves texts out, and changes the letters of the others.
fn normalizer(call: &mut Call) -> Outcome {
    let upper = match &*call.text_or("case_change_action", "NONE") {
        "NONE" => None,
        "LOWER" => Some(false),
        "UPPER" => Some(true),
        other => return Err(Refusal(format!("case_change_action is {other}, expected NONE, LOWER or UPPER"))),
    };
    let is_sensitive = call.int_or("is_case_sensitive", 0) != 0;
    let known = move |text: &str| if is_sensitive { text.to_string() } else { with_case(text, false) };
    let stopwords = call.prepared(|call| {
        let words = call.texts_attribute("stopwords").unwrap_or_default();
        Ok(words.iter().map(|word| known(word)).collect::<HashSet<String>>())
    })?;
    let shape = call.input_sizes(0)?;
    if !matches!(shape[..], [_] | [1, _]) {
        return Err(Refusal(format!("the input has shape {shape:?}, expected [C] or [1, C]")));
    }
    let texts = call.read_texts(0)?;
    let mut kept: Vec<Cow<str>> = Vec::with_capacity(texts.len());
    for text in texts.iter() {
        if stopwords.is_empty() || !stopwords.contains(&known(text)) {
            kept.push(upper.map_or(Cow::Borrowed(text), |upper| with_case(text, upper).into()));
        }
    }
    if kept.is_empty() {
        kept.push("".into());
    }
    let mut shape = shape;
    *shape.last_mut().expect("checked") = kept.len() as u32;
    Ok(vec![call.made_texts(&shape, kept)?])
}

/// Maximum number of parts of all texts, with those that pad: a text of a few bytes has as many.
const MAX_PARTS: usize = 1 << 24;

/// The parts of each text: `parts` returns at most as many as it is asked for.
fn all_parts<'t>(
    texts: &'t TextList,
    parts: impl Fn(&'t str, usize) -> Vec<Cow<'t, str>>,
) -> Step<Vec<Vec<Cow<'t, str>>>> {
    let mut left = MAX_PARTS;
    let mut limited = |text: &'t str| {
        let found = parts(text, left + 1);
        left = left.checked_sub(found.len()).ok_or_else(too_many_parts)?;
        Ok(found)
    };
    texts.iter().map(&mut limited).collect()
}

fn too_many_parts() -> Refusal {
    Refusal(format!("the texts have more than {}", amount(MAX_PARTS, "part")))
}

/// The parts of each text as rows, padded with empty texts.
fn padded_rows(call: &mut Call, mut shape: Vec<u32>, rows: &[Vec<Cow<str>>], pad: &str) -> Step<Value> {
    let most = rows.iter().map(Vec::len).max().unwrap_or(0);
    if rows.len().saturating_mul(most) > MAX_PARTS {
        return Err(too_many_parts());
    }
    shape.push(most as u32);
    let padding = |row: &Vec<Cow<str>>| std::iter::repeat_n(Cow::Borrowed(pad), most - row.len());
    let all = rows.iter().flat_map(|row| row.iter().map(|part| Cow::Borrowed(&**part)).chain(padding(row)));
    call.made_texts(&shape, all)
}

/// The parts of a text between delimiters, at most `most` of them; between white space if the delimiter is empty.
fn parts<'t>(text: &'t str, delimiter: &str, most: usize) -> Vec<Cow<'t, str>> {
    let space = |letter: char| letter.is_ascii_whitespace();
    if delimiter.is_empty() {
        let mut rest = text.trim_matches(space);
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let end = rest.find(space).filter(|_| parts.len() + 1 < most).unwrap_or(rest.len());
            parts.push(rest[..end].into());
            rest = rest[end..].trim_start_matches(space);
        }
        return parts;
    }
    match text.is_empty() {
        true => Vec::new(),
        false => text.splitn(most, delimiter).map(Cow::Borrowed).collect(),
    }
}

/// The parts of texts, and their numbers.
fn split(call: &mut Call) -> Outcome {
    let delimiter = call.text_or("delimiter", "");
    let most = call.int_attribute("maxsplit").and_then(|most| usize::try_from(most).ok());
    let most = most.map_or(usize::MAX, |most| most.saturating_add(1));
    let shape = call.input_sizes(0)?;
    let texts = call.read_texts(0)?;
    let rows = all_parts(&texts, |text, left| parts(text, &delimiter, most.min(left)))?;
    let counts: Vec<i64> = rows.iter().map(|row| row.len() as i64).collect();
    let all = padded_rows(call, shape.clone(), &rows, "")?;
    Ok(vec![all, call.int_list(&shape, &counts)?])
}

/// A regular expression with the syntax of RE2, which onnxruntime reads: classes of letters, digits and space are ASCII.
fn expression(pattern: &str) -> Step<Regex> {
    let ascii = with_ascii_classes(pattern);
    Regex::new(&ascii).map_err(|error| Refusal(format!("{} is no regular expression: {error}", quoted(pattern))))
}

/// An expression with ASCII's classes in place of Unicode's.
fn with_ascii_classes(pattern: &str) -> String {
    let mut written = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            written.push(letter);
            continue;
        }
        match letters.next() {
            Some('d') => written += "[0-9]",
            Some('D') => written += "[^0-9]",
            Some('w') => written += "[0-9A-Za-z_]",
            Some('W') => written += "[^0-9A-Za-z_]",
            Some('s') => written += "[\\t\\n\\f\\r ]",
            Some('S') => written += "[^\\t\\n\\f\\r ]",
            Some('b') => written += "(?-u:\\b)",
            Some(other) => written.extend(['\\', other]),
            None => written.push('\\'),
        }
    }
    written
}

/// Whether texts match an expression from their beginning to their end.
fn full_match(call: &mut Call) -> Outcome {
    let expression = call.prepared(|call| {
        let pattern = call.text_attribute("pattern").ok_or("pattern is missing")?;
        // By itself, so that it cannot close the group.
        expression(&pattern)?;
        expression(&format!("\\A(?:{pattern})\\z"))
    })?;
    let shape = call.input_sizes(0)?;
    let texts = call.read_texts(0)?;
    if shape.contains(&0) {
        return Ok(vec![Value::Empty(Descriptor::new(DataType::Uint8, shape))]);
    }
    let truths = texts.iter().map(|text| i64::from(expression.is_match(text)));
    let output = call.constant(DataType::Uint8, &shape, truths);
    call.one(output)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("RegexFullMatch", "the expressions of RE2, nearly", full_match),
    standard("StringConcat", "", concat),
    standard("StringNormalizer", "letters change alike in all locales", normalizer),
    standard("StringSplit", "", split),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split() {
        let split = |text, delimiter, most| parts(text, delimiter, most).join("|");
        assert_eq!(split("a,b,,c", ",", usize::MAX), "a|b||c");
        assert_eq!(split("a,b,,c", ",", 2), "a|b,,c");
        assert_eq!(split("", ",", usize::MAX), "");
        assert_eq!(split(" a \t b\nc ", "", usize::MAX), "a|b|c");
        assert_eq!(split(" a  b c ", "", 2), "a|b c");
        assert!(parts(" ", "", usize::MAX).is_empty());
    }

    #[test]
    fn classes_of_expressions_are_those_of_ascii() {
        let cases = [
            (r"\bcom\b", "a.com", true),
            (r"\w+", "Über", false),
            (r"\W\w+", "Über", true),
            (r"[\w.-]+", "a-b.c", true),
            (r"[^\d]+\s\S", "ab c", true),
            (r"\d", "٣", false),
            (r"(?i)ÄB", "äb", true),
            (r"\p{L}+\\d", "Über\\d", true),
        ];
        for (pattern, text, matches) in cases {
            let found = expression(pattern).unwrap_or_else(|_| panic!("{pattern}"));
            let whole = found.find_iter(text).any(|found| found.as_str() == text || pattern.contains(r"\b"));
            assert_eq!(whole, matches, "{pattern} {text}");
        }
        assert!(expression("\\").is_err() && expression("[").is_err());
    }

    #[test]
    fn letters_change_one_by_one() {
        assert_eq!(with_case("Straße Äß", true), "STRAßE Äß");
        assert_eq!(with_case("ÄBC Σ", false), "äbc σ");
    }
}
