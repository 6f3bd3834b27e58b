//! A store in a temporary folder, which the program may remove at its end while threads write.

use zarrs::filesystem::FilesystemStore;
use zarrs::storage::{Bytes, OffsetBytesIterator, StorageError, StoreKey, StorePrefix, WritableStorageTraits};

use crate::output::permit;

/// A store that is written with permits.
#[derive(Debug)]
pub struct Permitted(pub FilesystemStore);

impl WritableStorageTraits for Permitted {
    fn set(&self, key: &StoreKey, value: Bytes) -> Result<(), StorageError> {
        let _permit = permit();
        self.0.set(key, value)
    }

    fn set_partial_many<'a>(&'a self, key: &StoreKey, parts: OffsetBytesIterator<'a>) -> Result<(), StorageError> {
        let _permit = permit();
        self.0.set_partial_many(key, parts)
    }

    fn erase(&self, key: &StoreKey) -> Result<(), StorageError> {
        let _permit = permit();
        self.0.erase(key)
    }

    fn erase_prefix(&self, prefix: &StorePrefix) -> Result<(), StorageError> {
        let _permit = permit();
        self.0.erase_prefix(prefix)
    }

    fn supports_set_partial(&self) -> bool {
        self.0.supports_set_partial()
    }
}
