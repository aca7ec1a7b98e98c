//! `Tokenizer` of onnxruntime's extensions: the words of texts.

use super::{all_parts, expression, padded_rows};
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::registry::{Entry, Outcome, microsoft};
use regex::Regex;
use std::borrow::Cow;

/// What marks the beginning and the end of a text.
const MARKS: [&str; 2] = ["\u{2}", "\u{3}"];

/// How words are found.
enum Rule {
    /// Each character is one.
    Characters,
    /// They match an expression.
    Matching(Regex),
    /// They are between what matches one of these, one after the other.
    Between(Vec<Regex>),
}

impl Rule {
    fn of(call: &mut Call) -> Step<Rule> {
        let separators = call.texts_attribute("separators").filter(|separators| !separators.is_empty());
        match (call.text_attribute("tokenexp").filter(|text| !text.is_empty()), separators) {
            (Some(_), Some(_)) => Err("it has both separators and tokenexp".into()),
            (Some(pattern), None) => expression(&pattern).map(Rule::Matching),
            (None, Some(separators)) if separators == [""] => Ok(Rule::Characters),
            (None, Some(separators)) => {
                separators.iter().map(|pattern| expression(pattern)).collect::<Step<_>>().map(Rule::Between)
            }
            (None, None) => Err("it has neither separators nor tokenexp".into()),
        }
    }

    /// At most `most` words of at least `least` characters each.
    fn words<'t>(&self, text: &'t str, least: usize, most: usize) -> Vec<Cow<'t, str>> {
        let is_word = |word: &&str| !word.is_empty() && word.chars().count() >= least;
        let words: Vec<&str> = match self {
            Rule::Characters => text.split("").filter(is_word).take(most).collect(),
            Rule::Matching(expression) => {
                expression.find_iter(text).map(|found| found.as_str()).filter(is_word).take(most).collect()
            }
            Rule::Between(separators) => {
                let split = |words: Vec<&'t str>, separator: &Regex| {
                    words.into_iter().flat_map(|word| separator.split(word)).filter(is_word).take(most).collect()
                };
                separators.iter().fold(vec![text], split).into_iter().filter(is_word).collect()
            }
        };
        words.into_iter().map(Cow::Borrowed).collect()
    }
}

fn tokenizer(call: &mut Call) -> Outcome {
    let least = call.int_attribute("mincharnum").ok_or("mincharnum is missing")?;
    let least = usize::try_from(least).ok().filter(|&least| least > 0);
    let least = least.ok_or("mincharnum is not above 0")?;
    let pad = call.text_attribute("pad_value").ok_or("pad_value is missing")?;
    let is_marked = call.int_or("mark", 0) != 0;
    let rule = call.prepared(Rule::of)?;
    let shape = call.input_sizes(0)?;
    if !matches!(shape.len(), 1 | 2) {
        return Err(Refusal(format!("the input has shape {shape:?}, expected [C] or [N, C]")));
    }
    let texts = call.read_texts(0)?;
    let mut rows = all_parts(&texts, |text, left| rule.words(text, least, left))?;
    if is_marked {
        for row in &mut rows {
            row.insert(0, MARKS[0].into());
            row.push(MARKS[1].into());
        }
    }
    Ok(vec![padded_rows(call, shape, &rows, &pad)?])
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[microsoft(
    "Tokenizer",
    "the first of several alternatives that match, where onnxruntime takes the longest",
    tokenizer,
)];
