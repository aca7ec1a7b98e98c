//! The texts of a run of a model.

use super::model::Model;
use super::text_list::TextList;
use super::texts::{Table, number};
use crate::error::{Code, Error, Result, amount};
use crate::memory::check_room;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory for a text beside its bytes: its end, and its place in a table.
const TEXT_BYTES: usize = 24;

/// Maximum memory for the texts of a run, and for a list of them, in bytes: a few nodes that join texts with themselves, or
/// repeat a long one, would fill any.
const MAX_RUN_BYTES: usize = 1 << 30;

/// The texts of a run: those of the model, and others, whose numbers are negative.
#[derive(Debug)]
pub struct RunTexts {
    model: Arc<Model>,
    own: Mutex<Table>,
}

impl RunTexts {
    /// Those of the model.
    pub fn new(model: Arc<Model>) -> RunTexts {
        RunTexts { model, own: Mutex::default() }
    }

    /// The numbers of these texts.
    ///
    /// # Errors
    /// If memory for them runs out.
    pub fn numbers(&self, texts: impl IntoIterator<Item: AsRef<str>>) -> Result<Vec<i32>> {
        let (known, mut own) = (&self.model.texts().0, lock(&self.own));
        let number_of = |text: &str| {
            if let Some(place) = known.find(text) {
                return Ok(number(place));
            }
            let before = own.texts.bytes() + TEXT_BYTES * own.texts.len();
            check_bytes(before.saturating_add(TEXT_BYTES + text.len()))?;
            Ok(-1 - number(own.place(text)))
        };
        let mut number_of = number_of;
        texts.into_iter().map(|text| number_of(text.as_ref())).collect()
    }

    /// The texts with these numbers.
    ///
    /// # Errors
    /// If there is no text with a number, or memory runs out.
    pub fn list(&self, numbers: &[i32]) -> Result<TextList> {
        let (known, own) = (&self.model.texts().0.texts, lock(&self.own));
        let text = |number: i32| match usize::try_from(number) {
            Ok(place) => known.get(place),
            Err(_) => own.texts.get((-1 - number) as usize),
        };
        let texts = numbers.iter().map(|&number| {
            text(number).ok_or_else(|| Error::coded(Code::Operation, format!("no text has the number {number}")))
        });
        let bytes = texts.clone().try_fold(0usize, |sum, text| Ok::<_, Error>(sum.saturating_add(text?.len())))?;
        check_bytes(bytes.saturating_add(size_of_val(numbers) * 2))?;
        texts.collect()
    }
}

/// Checks that the texts of a run, or a list of them, may take this many bytes.
fn check_bytes(bytes: usize) -> Result<()> {
    match bytes {
        0..=MAX_RUN_BYTES => check_room(bytes),
        _ => {
            let message = format!("the texts of a run need more memory than {}", amount(MAX_RUN_BYTES, "byte"));
            Err(Error::coded(Code::NoMemory, message))
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::file::Files;
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::{Attr, TestGraph};
    use crate::onnx::texts::UNUSED;

    #[test]
    fn texts_of_models_and_runs_have_numbers() {
        let labels = vec![("classlabels_strings", Attr::Texts(&["a", "b", "a"]))];
        let graph = TestGraph::default().input("x", Float, &["1", "3"]);
        let graph = graph.node("ai.onnx.ml.ZipMap", "x", "y", labels).output("y");
        let model = Arc::new(Model::decode(graph.encode(17), Files::default()).unwrap());
        let [first, second] = ["a", "b"].map(|text| model.texts().number_of(text.as_bytes()).unwrap());
        assert!(first > UNUSED && second == first + 1);
        assert_eq!(model.texts().number_of(b"_Unused"), Ok(UNUSED));
        let [one, other] = [(); 2].map(|()| RunTexts::new(model.clone()));
        assert_eq!(one.numbers(["b", "", "x", "y", "x"]).unwrap(), [second, 0, -1, -2, -1]);
        assert_eq!(other.numbers(["y"]).unwrap(), [-1]);
        assert!(one.list(&[-2, second]).unwrap().iter().eq(["y", "b"]));
        for unknown in [-3, 1000, i32::MIN, i32::MAX] {
            assert!(one.list(&[unknown]).is_err());
        }
    }
}
