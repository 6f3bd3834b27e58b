//! Handles of the driver API: numbers that identify streams, events and other objects.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::errors::{Code, Result};

/// A handle, which callers treat as an opaque pointer.
pub type Handle = usize;

/// Returns an unused number, unique among handles of all kinds. Numbers with a special meaning are avoided (0, 1 and 2
/// are streams).
pub fn fresh() -> Handle {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
    NEXT.fetch_add(0x10, Ordering::Relaxed)
}

/// A table of objects of one kind by their handles.
#[derive(Debug)]
pub struct Handles<T> {
    things: RwLock<BTreeMap<Handle, Arc<T>>>,
}

impl<T> Handles<T> {
    /// Returns an empty table.
    pub const fn new() -> Self {
        Self { things: RwLock::new(BTreeMap::new()) }
    }

    /// Stores an object and returns its handle.
    pub fn insert(&self, thing: T) -> Handle {
        let handle = fresh();
        self.things.write().unwrap_or_else(PoisonError::into_inner).insert(handle, Arc::new(thing));
        handle
    }

    /// Returns the object of a handle.
    pub fn get(&self, handle: Handle) -> Result<Arc<T>> {
        let things = self.things.read().unwrap_or_else(PoisonError::into_inner);
        things.get(&handle).cloned().ok_or(Code::InvalidHandle)
    }

    /// Removes the object of a handle from the table and returns it.
    pub fn remove(&self, handle: Handle) -> Result<Arc<T>> {
        self.things.write().unwrap_or_else(PoisonError::into_inner).remove(&handle).ok_or(Code::InvalidHandle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_of_another_kind_is_an_error() {
        let (numbers, texts) = (Handles::new(), Handles::new());
        let (number, text) = (numbers.insert(7), texts.insert("seven"));
        assert_eq!((*numbers.get(number).unwrap(), *texts.get(text).unwrap()), (7, "seven"));
        assert_eq!(numbers.get(text), Err(Code::InvalidHandle));
        assert_eq!(numbers.remove(number).as_deref(), Ok(&7));
        assert_eq!(numbers.get(number), Err(Code::InvalidHandle));
        assert_eq!(numbers.remove(number), Err(Code::InvalidHandle));
    }
}
