//! A value whose drop may wait for a thread, while Python goes on.

use pyo3::prelude::*;
use std::ops::{Deref, DerefMut};

/// A value that is dropped without the interpreter's lock, whoever drops it: Python's garbage
/// collector holds that lock.
#[derive(Debug)]
pub(crate) struct Detached<T: Send>(Option<T>);

impl<T: Send> Detached<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Send> Drop for Detached<T> {
    fn drop(&mut self) {
        let value = &mut self.0;
        // After the interpreter's end, the value is dropped as any other.
        Python::try_attach(|py| py.detach(|| drop(value.take())));
    }
}

impl<T: Send> Deref for Detached<T> {
    type Target = T;

    #[expect(clippy::expect_used, reason = "only drop takes it")]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is not dropped")
    }
}

impl<T: Send> DerefMut for Detached<T> {
    #[expect(clippy::expect_used, reason = "only drop takes it")]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is not dropped")
    }
}
