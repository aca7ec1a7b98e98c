//! Lists of texts in two blocks of memory.

/// Texts one behind the other.
#[derive(Clone, Debug, Default)]
pub struct TextList {
    all: String,
    /// Where each text ends, in bytes.
    ends: Vec<usize>,
}

impl TextList {
    /// Number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text at `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.all[start..end])
    }

    /// Adds a text at the end.
    pub fn push(&mut self, text: &str) {
        self.all.push_str(text);
        self.ends.push(self.all.len());
    }

    /// The texts in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|index| self.get(index).expect("below the length"))
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.all.len() + size_of_val(&*self.ends)
    }

    /// The texts that `all` consists of; `units` has their lengths in UTF-16 code units. `None` if these do not add up, or
    /// divide a character.
    pub fn of_joined(all: String, units: &[u32]) -> Option<TextList> {
        let mut ends = Vec::with_capacity(units.len());
        let mut rest = all.as_str();
        let is_ascii = all.is_ascii();
        for &count in units {
            let length = match is_ascii {
                true => count as usize,
                false => bytes_of(rest, count)?,
            };
            rest = rest.get(length..)?;
            ends.push(all.len() - rest.len());
        }
        rest.is_empty().then_some(TextList { all, ends })
    }

    /// All texts as one, and their lengths in UTF-16 code units.
    pub fn joined(&self) -> (&str, Vec<u32>) {
        let is_ascii = self.all.is_ascii();
        let units = |text: &str| if is_ascii { text.len() } else { text.encode_utf16().count() };
        (&self.all, self.iter().map(|text| units(text) as u32).collect())
    }
}

/// How many bytes at the beginning of `text` are this many UTF-16 code units.
fn bytes_of(text: &str, units: u32) -> Option<usize> {
    let (mut left, mut bytes) = (units, 0);
    for letter in text.chars() {
        if left == 0 {
            break;
        }
        left = left.checked_sub(letter.len_utf16() as u32)?;
        bytes += letter.len_utf8();
    }
    (left == 0).then_some(bytes)
}

impl<S: AsRef<str>> FromIterator<S> for TextList {
    fn from_iter<I: IntoIterator<Item = S>>(texts: I) -> TextList {
        let mut list = TextList::default();
        texts.into_iter().for_each(|text| list.push(text.as_ref()));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_joined_and_divided() {
        for texts in [&["a", "", "bc"][..], &["ä\u{1f34e}", "", "b", "日本"], &[], &[""]] {
            let list: TextList = texts.iter().collect();
            assert!(list.iter().eq(texts.iter().copied()));
            let (all, units) = list.joined();
            assert!(units.iter().zip(texts).all(|(&units, text)| units as usize == text.encode_utf16().count()));
            assert!(TextList::of_joined(all.to_string(), &units).unwrap().iter().eq(texts.iter().copied()));
            assert_eq!(list.get(texts.len()), None);
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        for (all, units) in
            [("ab", &[1][..]), ("ab", &[3]), ("\u{1f34e}", &[1, 1]), ("ä", &[2]), ("", &[1]), ("a", &[u32::MAX])]
        {
            assert!(TextList::of_joined(all.to_string(), units).is_none(), "{all} {units:?}");
        }
    }
}
