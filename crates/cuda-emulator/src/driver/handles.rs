//! What callers hold of the driver: numbers that stand for streams, events and the like.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::errors::{Code, Result};

/// A handle: a pointer for callers, which do not look behind it.
pub type Handle = usize;

/// A number that is no other handle's, of whatever kind, and none of those that mean something (0, 1 and 2 are
/// streams).
pub fn fresh() -> Handle {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
    NEXT.fetch_add(0x10, Ordering::Relaxed)
}

/// Things of one kind by their handles.
#[derive(Debug)]
pub struct Handles<T> {
    things: RwLock<BTreeMap<Handle, Arc<T>>>,
}

impl<T> Handles<T> {
    /// None so far.
    pub const fn new() -> Self {
        Self { things: RwLock::new(BTreeMap::new()) }
    }

    /// A handle for a thing.
    pub fn insert(&self, thing: T) -> Handle {
        let handle = fresh();
        self.things.write().unwrap_or_else(PoisonError::into_inner).insert(handle, Arc::new(thing));
        handle
    }

    /// What a handle stands for.
    pub fn get(&self, handle: Handle) -> Result<Arc<T>> {
        let things = self.things.read().unwrap_or_else(PoisonError::into_inner);
        things.get(&handle).cloned().ok_or(Code::InvalidHandle)
    }

    /// What a handle stood for, which it does no more.
    pub fn remove(&self, handle: Handle) -> Result<Arc<T>> {
        self.things.write().unwrap_or_else(PoisonError::into_inner).remove(&handle).ok_or(Code::InvalidHandle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_of_one_kind() {
        let (numbers, texts) = (Handles::new(), Handles::new());
        let (number, text) = (numbers.insert(7), texts.insert("seven"));
        assert_eq!((*numbers.get(number).unwrap(), *texts.get(text).unwrap()), (7, "seven"));
        assert_eq!(numbers.get(text), Err(Code::InvalidHandle));
        assert_eq!(numbers.remove(number).as_deref(), Ok(&7));
        assert_eq!(numbers.get(number), Err(Code::InvalidHandle));
        assert_eq!(numbers.remove(number), Err(Code::InvalidHandle));
    }
}
