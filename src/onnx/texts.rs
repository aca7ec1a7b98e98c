//! Texts, as tensors of strings hold them. WebNN has none: a model computes with their numbers, int32, and equal texts have
//! equal numbers. Moving texts, choosing between them and comparing them are then operators on integers; what looks into
//! texts is computed on the host.

use super::error::{ModelError, Result, quoted};
use super::graph::Arena;
use super::proto;
use super::tensor::{ElementType, Literal, TensorRecord};
use super::text_list::TextList;
use bytes::Bytes;
use hashbrown::HashTable;
use rapidhash::fast::RandomState;
use std::hash::BuildHasher;

/// The text that pads, whose number is 0.
const NO_TEXT: &str = "";

/// What encoders of labels return by default for labels that they do not know; its number.
pub const UNUSED: i32 = 1;

/// Distinct texts in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub texts: TextList,
    /// Their places by their hashes.
    places: HashTable<u32>,
    hasher: RandomState,
}

impl Table {
    /// The place of `text`, if it is there.
    pub fn find(&self, text: &str) -> Option<usize> {
        let is_it = |&place: &u32| self.texts.get(place as usize) == Some(text);
        self.places.find(self.hasher.hash_one(text), is_it).map(|&place| place as usize)
    }

    /// The place of `text`, which is added unless it is there.
    pub fn place(&mut self, text: &str) -> usize {
        if let Some(known) = self.find(text) {
            return known;
        }
        let place = self.texts.len();
        self.texts.push(text);
        let Table { texts, places, hasher } = self;
        let hash = |&place: &u32| hasher.hash_one(texts.get(place as usize).expect("a place"));
        places.insert_unique(hasher.hash_one(text), number(place) as u32, hash);
        place
    }
}

/// The texts in a model: those of its constants and attributes. Their numbers are their places.
#[derive(Debug)]
pub struct Texts(pub(super) Table);

impl Texts {
    /// The texts in `arena`. Those that are no UTF-8 are left out: whatever reads them fails.
    pub fn of(arena: &Arena) -> Texts {
        let mut table = Table::default();
        table.place(NO_TEXT);
        table.place("_Unused");
        let mut add = |bytes: &[u8]| {
            if let Ok(text) = std::str::from_utf8(bytes) {
                table.place(text);
            }
        };
        let add_tensor = |record: &TensorRecord, add: &mut dyn FnMut(&[u8])| {
            if record.element == ElementType::String {
                record.encoded_texts().into_iter().flatten().for_each(|text| add(&text));
            }
        };
        arena.initializers().for_each(|record| add_tensor(record, &mut add));
        // Those of a forest are options, one for each of millions of nodes.
        for attribute in arena.attribute_texts().filter(|attribute| attribute.name != "nodes_modes") {
            let proto::AttributeTexts { s, strings, t, .. } = attribute;
            s.iter().chain(&strings).for_each(|text| add(text));
            if let Some(record) = t.and_then(|encoded| TensorRecord::decode(&encoded).ok()) {
                add_tensor(&record, &mut add);
            }
        }
        Texts(table)
    }

    /// The numbers of a constant's texts.
    ///
    /// # Errors
    /// If texts cannot be decoded, are no UTF-8, or are not as many as the shape says.
    pub fn numbers(&self, literal: &Literal) -> Result<Vec<i32>> {
        let number = |text: &Bytes| self.number_of(text);
        literal.texts().and_then(|texts| texts.iter().map(number).collect()).map_err(ModelError::new)
    }

    /// The number of a text in the model.
    ///
    /// # Errors
    /// If it is no UTF-8.
    pub fn number_of(&self, text: &[u8]) -> Result<i32, String> {
        let checked = std::str::from_utf8(text).map_err(|error| {
            let (start, shown) = (error.valid_up_to(), String::from_utf8_lossy(text));
            format!("the text {} is no UTF-8 from byte {start} on", quoted(&shown))
        })?;
        Ok(number(self.0.find(checked).expect("all texts of the model are there")))
    }
}

/// The number of the text at `place`.
pub(super) fn number(place: usize) -> i32 {
    // A file has less than 2^31 texts, and a run has memory for fewer.
    i32::try_from(place).expect("fewer than 2^31 texts")
}
