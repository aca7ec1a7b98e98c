//! Handles by which JavaScript holds objects of the runtime.

use super::account::{Account, Weight};
use super::completion::Environment;
use crate::dynamic::Symbols;
use crate::ir::Builder;
use crate::runtime::Context;
use napi::bindgen_prelude::{Array, External, JsObjectValue, Unknown};
use napi::{JsValue, sys};
use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;

/// A context and the environment that created it.
pub struct Owner {
    /// The context.
    pub context: Arc<Context>,
    /// The environment that its requests are reported to.
    pub environment: Arc<Environment>,
}

impl Owner {
    /// The account of the environment.
    pub fn account(&self) -> &Arc<Account> {
        &self.environment.account
    }
}

/// A tensor or graph of a context.
pub struct Handle<T> {
    shared: Arc<T>,
    owner: Arc<Owner>,
    weight: Weight,
}

impl<T> Handle<T> {
    /// A handle to `shared`, which belongs to `owner` and keeps `bytes` bytes alive.
    pub fn new(shared: Arc<T>, owner: &Arc<Owner>, bytes: usize) -> Handle<T> {
        Handle { shared, owner: owner.clone(), weight: Weight::new(owner.account(), bytes) }
    }

    /// The object itself.
    pub fn shared(&self) -> &Arc<T> {
        &self.shared
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Context {
        &self.owner.context
    }

    /// Updates the reported memory of the object to `bytes` bytes.
    pub fn weigh(&self, bytes: usize) {
        self.weight.set(bytes);
    }
}

impl<T> Deref for Handle<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.shared
    }
}

/// A builder and the weight of its constants.
pub struct BuilderHandle {
    /// `None` after the build.
    pub builder: RefCell<Option<Builder>>,
    /// The names of dimensions, if the context has the extension for them.
    pub symbols: Option<RefCell<Symbols>>,
    /// Bytes of its constants, and of models that they are a part of.
    pub weight: Weight,
}

/// The objects behind an array of handles.
///
/// # Errors
/// If an element is not a handle of that type or belongs to another owner: a defect of the facade.
pub fn handles<T: 'static>(array: &Array, owner: &Arc<Owner>) -> super::Result<Vec<Arc<T>>> {
    (0..array.len())
        .map(|index| {
            let element: Unknown = array.get_element(index).map_err(super::convert::from_napi)?;
            let external = element_handle::<T>(&element, owner);
            external.map(|handle| handle.shared.clone()).ok_or_else(|| {
                super::convert::type_error("an element of the array is not a handle of the expected type and context")
            })
        })
        .collect()
}

/// The handle in `element`, if it is one of this type and owner.
pub fn element_handle<'a, T: 'static>(element: &Unknown<'a>, owner: &Arc<Owner>) -> Option<&'a Handle<T>> {
    external_of::<Handle<T>>(element).filter(|handle| Arc::ptr_eq(&handle.owner, owner))
}

/// The contents of `element`, if it is an `External` of this type.
pub fn external_of<'a, T: 'static>(element: &Unknown<'a>) -> Option<&'a T> {
    let value = element.value();
    let mut data = std::ptr::null_mut();
    // SAFETY: `value` is a live value of its environment; the call fails for anything but an external.
    let status = unsafe { sys::napi_get_value_external(value.env, value.value, &mut data) };
    if status != sys::Status::napi_ok {
        return None;
    }
    // SAFETY: napi-rs keeps a registry of its externals and their types, and returns `None` for anything else; the
    // external lives as long as its element, which the array holds during this call.
    unsafe { External::<T>::inner_from_raw(data) }
}
