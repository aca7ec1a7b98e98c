//! Handles by which JavaScript holds objects of the runtime, and their weight for the garbage collector.

use super::completion::Environment;
use crate::dynamic::Symbols;
use crate::ir::Builder;
use crate::runtime::Context;
use napi::bindgen_prelude::{Array, External, JsObjectValue, Unknown};
use napi::{Env, JsValue, sys};
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A context and the environment that created it.
pub struct Owner {
    /// The context.
    pub context: Arc<Context>,
    /// The environment that its requests are reported to.
    pub environment: Arc<Environment>,
}

/// A tensor or graph of a context.
pub struct Handle<T> {
    shared: Arc<T>,
    owner: Arc<Owner>,
    weight: Weight,
}

impl<T> Handle<T> {
    /// A handle to `shared`, which belongs to `owner`.
    pub fn new(shared: Arc<T>, owner: &Arc<Owner>, weight: Weight) -> Handle<T> {
        Handle { shared, owner: owner.clone(), weight }
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
    /// Bytes of its constants.
    pub weight: Weight,
}

/// Bytes outside of the JavaScript heap that the garbage collector should know of. Reported once and withdrawn once, on
/// the JavaScript thread: when the object is destroyed or its handle is collected.
pub struct Weight {
    env: sys::napi_env,
    bytes: Cell<i64>,
}

/// Bytes reported for the feeds of runs, which are passed on to the results. Caches of tens of megabytes, reported
/// again for each token, would trigger the garbage collector each time.
#[derive(Default)]
pub struct Passing(AtomicUsize);

impl Passing {
    /// Withdraws the bytes that no result has taken over. Called on the JavaScript thread of `env`.
    pub fn end(&self, env: &Env) {
        // SAFETY: the weight does not outlive this function.
        let rest = unsafe { Weight::new(env, 0) };
        rest.take(self.0.load(Ordering::Relaxed), self);
    }
}

impl Weight {
    /// Reports `bytes` bytes.
    ///
    /// # Safety
    /// The weight must end before the environment does, like everything that JavaScript holds in an `External`.
    pub unsafe fn new(env: &Env, bytes: usize) -> Weight {
        let weight = Weight { env: env.raw(), bytes: Cell::new(0) };
        weight.set(bytes);
        weight
    }

    /// Reports `bytes` bytes in place of the previous number.
    pub fn set(&self, bytes: usize) {
        let before = self.bytes.replace(bytes as i64);
        if before != bytes as i64 {
            self.adjust(bytes as i64 - before);
        }
    }

    /// Reports `bytes` additional bytes.
    pub fn add(&self, bytes: usize) {
        self.set(self.bytes.get() as usize + bytes);
    }

    /// Changes the reported number to `bytes`. If that is less, the difference moves to `passing` and stays reported.
    pub fn pass(&self, bytes: usize, passing: &Passing) {
        match (self.bytes.get() as usize).checked_sub(bytes) {
            Some(fewer) => {
                self.bytes.set(bytes as i64);
                passing.0.fetch_add(fewer, Ordering::Relaxed);
            }
            None => self.set(bytes),
        }
    }

    /// Changes the reported number to `bytes`, taking from `passing` before anything new is reported.
    pub fn take(&self, bytes: usize, passing: &Passing) {
        let known = passing.0.load(Ordering::Relaxed).min(bytes);
        passing.0.fetch_sub(known, Ordering::Relaxed);
        self.bytes.set(self.bytes.get() + known as i64);
        self.set(bytes);
    }

    /// The reported number.
    pub fn bytes(&self) -> usize {
        self.bytes.get() as usize
    }

    /// Withdraws the reported bytes.
    pub fn release(&self) {
        self.set(0);
    }

    fn adjust(&self, bytes: i64) {
        if bytes == 0 {
            return;
        }
        let mut total = 0;
        // SAFETY: the environment is alive, by the contract of `new`, and this is its thread: a weight cannot be sent
        // to another one.
        let status = unsafe { sys::napi_adjust_external_memory(self.env, bytes, &mut total) };
        // Fails only for null arguments.
        debug_assert_eq!(status, sys::Status::napi_ok);
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.release();
    }
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
