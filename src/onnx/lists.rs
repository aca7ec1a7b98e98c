//! The rules of operators on lists, shared by translations and sessions. A list that nobody else holds is changed in
//! place.

use super::value::Value;
use std::sync::Arc;

/// Maximum number of tensors in a list: a translation keeps the lists before and after every change.
const MAX_LENGTH: usize = 4096;

/// The tensors of a list, shared by all that hold it.
pub type List<T> = Arc<Vec<Value<T>>>;

/// # Errors
/// If a list of this length is too long.
pub fn check_length(length: usize) -> Result<(), String> {
    match length {
        0..=MAX_LENGTH => Ok(()),
        _ => Err(format!("a sequence has {length} tensors, expected at most {MAX_LENGTH}")),
    }
}

/// The value of the input at `index`, to be put into a list.
///
/// # Errors
/// If it is missing, or a list itself.
pub fn tensor<T>(value: Option<Value<T>>, index: usize) -> Result<Value<T>, String> {
    match value {
        None => Err(format!("input {index} is missing")),
        Some(Value::Sequence(_)) => Err(format!("input {index} is a sequence, expected a tensor")),
        Some(value) => Ok(value),
    }
}

/// The index for `position`, below `limit`, in a list of `length` tensors; negative positions count from the end.
fn index(position: i64, length: usize, limit: usize) -> Result<usize, String> {
    let counted = if position < 0 { position + length as i64 } else { position };
    let valid = usize::try_from(counted).ok().filter(|&counted| counted < limit);
    valid.ok_or_else(|| format!("position is {position}, the sequence has {length} tensors"))
}

/// The list with `value` at `position`, by default at its end.
///
/// # Errors
/// If there is no such position, or the list is too long.
pub fn inserted<T: Clone>(mut list: List<T>, value: Value<T>, position: Option<i64>) -> Result<List<T>, String> {
    let length = list.len();
    let at = position.map_or(Ok(length), |position| index(position, length, length + 1))?;
    check_length(length + 1)?;
    Arc::make_mut(&mut list).insert(at, value);
    Ok(list)
}

/// The list without the tensor at `position`, by default the last one.
///
/// # Errors
/// If there is no such position.
pub fn erased<T: Clone>(mut list: List<T>, position: Option<i64>) -> Result<List<T>, String> {
    let length = list.len();
    let at = match position {
        Some(position) => index(position, length, length)?,
        None => length.checked_sub(1).ok_or("the sequence is empty")?,
    };
    Arc::make_mut(&mut list).remove(at);
    Ok(list)
}

/// The tensor at `position` of a list.
///
/// # Errors
/// If there is no such position.
pub fn element<T: Clone>(list: &[Value<T>], position: i64) -> Result<Value<T>, String> {
    Ok(list[index(position, list.len(), list.len())?].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(numbers: &[i32]) -> List<i32> {
        Arc::new(numbers.iter().map(|&number| Value::Tensor(number)).collect())
    }

    #[test]
    fn only_a_list_that_others_hold_is_copied() {
        let own = list(&[1, 2]);
        let place = Arc::as_ptr(&own);
        let own = inserted(own, Value::Tensor(3), Some(-1)).unwrap();
        assert_eq!(own, list(&[1, 3, 2]));
        let own = erased(own, None).unwrap();
        assert_eq!(Arc::as_ptr(&own), place, "changed in place");
        let other = inserted(own.clone(), Value::Tensor(4), None).unwrap();
        assert_eq!((&own, &other), (&list(&[1, 3]), &list(&[1, 3, 4])));
    }

    #[test]
    fn positions_count_from_both_ends() {
        let all = list(&[1, 2, 3]);
        assert_eq!(element(&all, -3), element(&all, 0));
        assert_eq!(element(&all, 2), Ok(Value::Tensor(3)));
        for outside in [3, -4, i64::MIN, i64::MAX] {
            let message = format!("position is {outside}, the sequence has 3 tensors");
            assert_eq!(element(&all, outside), Err(message.clone()));
            assert_eq!(erased(all.clone(), Some(outside)), Err(message));
        }
        assert_eq!(inserted(all.clone(), Value::Tensor(4), Some(3)), Ok(list(&[1, 2, 3, 4])));
        assert!(inserted(all, Value::Tensor(4), Some(4)).is_err());
        assert_eq!(erased(list(&[]), None), Err("the sequence is empty".to_string()));
        let longest = list(&[0; MAX_LENGTH]);
        assert!(inserted(longest, Value::Tensor(0), None).unwrap_err().contains("expected at most 4096"));
    }
}
