//! `TfIdfVectorizer`: how often sequences of words or numbers occur.

use crate::dtype::DataType;
use crate::error::amount;
use crate::memory::elements;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::{Cut, Refusal};
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::onnx::stop::{ELEMENTS_BETWEEN, Stop};
use rapidhash::fast::RandomState;
use std::collections::HashMap;

/// The attribute `mode`.
#[derive(Clone, Copy)]
enum Mode {
    /// Counts.
    Tf,
    /// The weight of each n-gram that occurs, however often.
    Idf,
    /// Weighted counts.
    TfIdf,
}

/// Maximum number of items of a sequence: each is looked up at every place of a row.
const MAX_GRAM: i64 = 1 << 10;

/// Sequences as a tree: the children of all nodes by their parents and items. The root is 0.
struct Ngrams {
    children: HashMap<(u32, i64), u32, RandomState>,
    /// For each node, the column that counts the sequence that ends there.
    columns: Vec<Option<u32>>,
    /// The weights of the columns with a sequence, if there are weights.
    weights: Option<HashMap<u32, f32>>,
    /// Number of columns.
    width: usize,
    lengths: std::ops::RangeInclusive<usize>,
    most_skipped: usize,
    mode: Mode,
    is_of_texts: bool,
}

fn required(call: &Call, name: &str) -> Step<i64> {
    call.int_attribute(name).ok_or_else(|| Refusal(format!("{name} is missing")))
}

impl Ngrams {
    fn of(call: &mut Call) -> Step<Ngrams> {
        let mode = match &*call.text_attribute("mode").ok_or("mode is missing")? {
            "TF" => Mode::Tf,
            "IDF" => Mode::Idf,
            "TFIDF" => Mode::TfIdf,
            other => return Err(Refusal(format!("mode is {other}, expected TF, IDF or TFIDF"))),
        };
        let [least, most] = [required(call, "min_gram_length")?, required(call, "max_gram_length")?];
        if least < 1 || most < least || most > MAX_GRAM {
            return Err(Refusal(format!("lengths are {least} to {most}, expected 1 to at most {MAX_GRAM}")));
        }
        let skipped = required(call, "max_skip_count")?;
        let most_skipped = usize::try_from(skipped).map_err(|_| format!("max_skip_count is {skipped}"))?;
        let texts = call.text_numbers("pool_strings")?;
        let is_of_texts = texts.is_some();
        let pool = match texts {
            Some(texts) => texts.into_iter().map(i64::from).collect(),
            None => call.ints_attribute("pool_int64s").ok_or("pool_strings and pool_int64s are missing")?,
        };
        let starts = call.ints_attribute("ngram_counts").ok_or("ngram_counts is missing")?;
        let columns = call.ints_attribute("ngram_indexes").ok_or("ngram_indexes is missing")?;
        let weights = call.floats_attribute("weights");
        let width = columns.iter().max().map_or(0, |&last| last.saturating_add(1));
        if columns.iter().any(|&column| column < 0) || width > i64::from(i32::MAX) {
            return Err("ngram_indexes has a column that does not exist".into());
        }
        if let Some(weights) = weights.as_ref().filter(|weights| weights.len() != columns.len()) {
            let (got, expected) = (amount(weights.len(), "weight"), amount(columns.len(), "sequence"));
            return Err(Refusal(format!("it has {got} for {expected}")));
        }
        let mut made = Ngrams {
            children: HashMap::default(),
            columns: vec![None],
            weights: weights.as_ref().map(|_| HashMap::new()),
            width: width as usize,
            lengths: least as usize..=most as usize,
            most_skipped,
            mode,
            is_of_texts,
        };
        let mut sequence = 0;
        for (at, &start) in starts.iter().enumerate() {
            let (length, end) = (at + 1, starts.get(at + 1).map_or(pool.len() as i64, |&end| end));
            let items = usize::try_from(start).ok().zip(usize::try_from(end).ok());
            let items = items.and_then(|(start, end)| pool.get(start..end)).filter(|items| items.len() % length == 0);
            let items = items.ok_or_else(|| format!("ngram_counts {starts:?} does not divide {} items", pool.len()))?;
            for items in items.chunks_exact(length) {
                let &column =
                    columns.get(sequence).ok_or("ngram_indexes has fewer columns than there are sequences")?;
                if made.lengths.contains(&length) {
                    made.add(items, column as u32);
                }
                if let (Some(own), Some(weights)) = (&mut made.weights, &weights) {
                    own.insert(column as u32, weights[sequence] as f32);
                }
                sequence += 1;
            }
        }
        Ok(made)
    }

    fn add(&mut self, items: &[i64], column: u32) {
        let mut node = 0;
        for &item in items {
            let next = self.columns.len() as u32;
            node = *self.children.entry((node, item)).or_insert(next);
            if node == next {
                self.columns.push(None);
            }
        }
        self.columns[node as usize] = Some(column);
    }

    /// Adds the occurrences in `row` to `counts`, which are 0. As in onnxruntime, single items are counted once, whatever
    /// is skipped. Returns the columns with an occurrence.
    ///
    /// # Errors
    /// If `stop` ends it.
    fn count(&self, row: &[i64], counts: &mut [f32], stop: &Stop) -> Step<Vec<u32>> {
        let (mut least, most) = (*self.lengths.start(), *self.lengths.end());
        let mut found = Vec::new();
        for distance in (1..).take(self.most_skipped.min(row.len()) + 1) {
            for start in 0..row.len() {
                if start + distance * (least - 1) >= row.len() {
                    break;
                }
                if start % ELEMENTS_BETWEEN == 0 {
                    stop.check()?;
                }
                let mut node = 0;
                for (length, item) in (1..=most).zip(row[start..].iter().step_by(distance)) {
                    let Some(&next) = self.children.get(&(node, *item)) else { break };
                    node = next;
                    if let Some(column) = self.columns[node as usize].filter(|_| length >= least) {
                        let count = &mut counts[column as usize];
                        if *count == 0.0 {
                            found.push(column);
                        }
                        *count += 1.0;
                    }
                }
            }
            if least == 1 {
                least = 2;
                if least > most {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Replaces the counts of the columns `found` by what the mode makes of them.
    fn weigh(&self, counts: &mut [f32], found: &[u32]) {
        for &column in found {
            let count = &mut counts[column as usize];
            let weight = self.weights.as_ref().and_then(|weights| weights.get(&column)).copied().unwrap_or(1.0);
            match self.mode {
                Mode::Tf => {}
                Mode::Idf => *count = weight,
                Mode::TfIdf => *count *= weight,
            }
        }
    }
}

fn vectorizer(call: &mut Call) -> Outcome {
    let ngrams = call.prepared(Ngrams::of)?;
    let shape = call.input_sizes(0)?;
    let (rows, length) = match shape[..] {
        [length] => (None, length as usize),
        [rows, length] => (Some(rows), length as usize),
        _ => return Err(Refusal(format!("the input has shape {shape:?}, expected [C] or [N, C]"))),
    };
    let operand = match call.required(0)? {
        Value::Tensor(id) if !ngrams.is_of_texts => Some(id),
        Value::Texts(id) if ngrams.is_of_texts => Some(id),
        Value::Empty(_) => None,
        _ => return Err("the input is not of the type of its sequences".into()),
    };
    let items: Vec<i64> = match operand {
        None => Vec::new(),
        Some(id) if !call.is_constant(id) => {
            let reason = "sequences are counted in a run of a session";
            return Err(Refusal::from(reason).unless(Cut::Elements));
        }
        Some(id) => {
            let bytes = call.bytes_of(id)?;
            match call.dtype(id) {
                DataType::Int32 => elements::<i32>(bytes.bytes()).iter().map(|&item| item.into()).collect(),
                DataType::Int64 => elements::<i64>(bytes.bytes()).to_vec(),
                other => return Err(Refusal(format!("the input is of type {other}, expected int32, int64 or texts"))),
            }
        }
    };
    let width = ngrams.width as u32;
    let shape: Vec<u32> = rows.into_iter().chain([width]).collect();
    if shape.contains(&0) {
        return Ok(vec![Value::Empty(crate::shape::Descriptor::new(DataType::Float32, shape))]);
    }
    let stop = call.stop();
    let mut outcome: Step<()> = Ok(());
    let output = call.written(&shape, |all: &mut [f32]| {
        outcome = all.chunks_exact_mut(ngrams.width).enumerate().try_for_each(|(at, counts)| {
            let row = items.get(at * length..(at + 1) * length).unwrap_or_default();
            let found = ngrams.count(row, counts, &stop)?;
            ngrams.weigh(counts, &found);
            Ok(())
        });
    });
    outcome?;
    call.one(output)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[standard("TfIdfVectorizer", "", vectorizer)];

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts 1, 2 and the pair 1 2, each in a column of its own.
    fn counted(lengths: std::ops::RangeInclusive<usize>, most_skipped: usize, row: &[i64]) -> Vec<f32> {
        let (children, columns) = (HashMap::default(), vec![None]);
        let (weights, mode) = (None, Mode::Tf);
        let mut ngrams =
            Ngrams { children, columns, weights, width: 3, lengths, most_skipped, mode, is_of_texts: false };
        ngrams.add(&[1], 0);
        ngrams.add(&[2], 1);
        ngrams.add(&[1, 2], 2);
        let mut counts = vec![0.0; 3];
        assert!(ngrams.count(row, &mut counts, &Stop::default()).is_ok());
        counts
    }

    #[test]
    fn sequences_are_counted_at_all_distances() {
        assert_eq!(counted(1..=2, 0, &[1, 2, 7, 1, 2, 1]), [3.0, 2.0, 2.0]);
        assert_eq!(counted(2..=2, 0, &[1, 2, 7, 1, 2, 1]), [0.0, 0.0, 2.0]);
        assert_eq!(counted(1..=2, 1, &[1, 7, 2]), [1.0, 1.0, 1.0]);
        assert_eq!(counted(1..=2, usize::MAX, &[1, 7, 7, 2]), [1.0, 1.0, 1.0]);
        assert_eq!(counted(1..=2, 3, &[]), [0.0, 0.0, 0.0]);
    }
}
