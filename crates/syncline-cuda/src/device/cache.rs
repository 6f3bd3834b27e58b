//! A cache of compiled kernels on disk, so that each kernel is compiled once per machine.
//!
//! The cache is optional: a folder that cannot be written or a damaged entry causes another compilation and never an
//! error.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use twox_hash::{XxHash3_64, xxhash3_128};

/// First bytes of an entry; the last one is the version of the layout.
const MAGIC: [u8; 8] = *b"SYCUBIN\x01";

/// Hash of everything that determines a compiled image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key(u128);

impl Key {
    /// Returns the key of an image that is compiled from these parts (sources, options, compiler version). The hash
    /// includes the length of each part, so that moving text between two parts changes the key.
    pub fn new<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = xxhash3_128::Hasher::new();
        for part in parts {
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
        Self(hasher.finish_128())
    }
}

/// A folder of compiled kernels, or no folder if caching is disabled.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// Returns a cache in `folder`, which is created on first use; `None` disables caching.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    /// Returns the cache in the folder that `SYNCLINE_CACHE_DIR` names (disabled if that is empty), else in the user's
    /// cache folder of the operating system.
    pub fn from_environment() -> Self {
        let folder = match std::env::var_os("SYNCLINE_CACHE_DIR") {
            Some(folder) if folder.is_empty() => None,
            Some(folder) => Some(PathBuf::from(folder)),
            None => user_cache_folder().map(|folder| folder.join("syncline").join("kernels")),
        };
        Self::new(folder)
    }

    /// Returns the folder of the entries.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Checks by writing a file whether entries can be stored.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn check(&self) -> std::io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        if !folder.exists() {
            fs::create_dir_all(folder)?;
        }
        let probe = temporary(&folder.join("probe"));
        fs::write(&probe, MAGIC).and_then(|()| fs::remove_file(&probe))
    }

    /// Returns the image stored under `key`, if there is one and it is not damaged.
    pub fn get(&self, key: Key) -> Option<Vec<u8>> {
        let mut entry = fs::read(self.path(key)?).ok()?;
        let checksum = u64::from_le_bytes(entry.get(8..16)?.try_into().ok()?);
        if entry[..8] != MAGIC || XxHash3_64::oneshot(&entry[16..]) != checksum {
            return None;
        }
        entry.drain(..16);
        Some(entry)
    }

    /// Stores an image. It is written to a temporary file and renamed, so that readers and other writers never see a
    /// partial entry.
    pub fn put(&self, key: Key, image: &[u8]) {
        let Some(path) = self.path(key) else { return };
        let mut entry = Vec::with_capacity(16 + image.len());
        entry.extend_from_slice(&MAGIC);
        entry.extend_from_slice(&XxHash3_64::oneshot(image).to_le_bytes());
        entry.extend_from_slice(image);
        // A failure is ignored: the next run compiles the kernel again.
        let _ = write_then_rename(&path, &entry);
    }

    fn path(&self, key: Key) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{:032x}.cubin", key.0)))
    }
}

fn write_then_rename(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    fs::create_dir_all(folder)?;
    let temporary = temporary(path);
    let written = fs::write(&temporary, contents).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Returns a unique file name in the folder of `path`.
fn temporary(path: &Path) -> PathBuf {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    path.with_extension(format!("{}-{serial}.tmp", std::process::id()))
}

fn user_cache_folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if cfg!(windows) {
        return variable("LOCALAPPDATA");
    }
    variable("XDG_CACHE_HOME")
        .filter(|folder| folder.is_absolute())
        .or_else(|| variable("HOME").map(|home| home.join(".cache")))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("syncline-cache-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn key_tells_parts_apart() {
        let key = |parts: &[&str]| Key::new(parts.iter().map(|part| part.as_bytes()));
        assert_eq!(key(&["ab", "c"]), key(&["ab", "c"]));
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_ne!(key(&["ab", "c"]), key(&["ab", "c", ""]));
    }

    #[test]
    fn round_trip_and_no_leftovers() {
        let folder = Folder::new("round-trip");
        let cache = Cache::new(Some(folder.0.clone()));
        let key = Key::new([b"source".as_slice()]);
        assert_eq!(cache.get(key), None);
        cache.check().unwrap();
        cache.put(key, b"image");
        cache.put(key, b"image two");
        cache.check().unwrap();
        assert_eq!(cache.get(key).as_deref(), Some(b"image two".as_slice()));
        assert_eq!(cache.get(Key::new([b"other".as_slice()])), None);
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    }

    #[test]
    fn damage_is_a_miss() {
        let folder = Folder::new("damage");
        let cache = Cache::new(Some(folder.0.clone()));
        let key = Key::new([b"source".as_slice()]);
        cache.put(key, b"a compiled image");
        let path = cache.path(key).unwrap();
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(cache.get(key), None, "truncated to {length}");
        }
        for position in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[position] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(cache.get(key), None, "byte {position} flipped");
        }
        cache.put(key, b"a compiled image");
        assert!(cache.get(key).is_some());
    }

    #[test]
    fn unwritable_cache_folder_prints_a_warning() {
        let folder = Folder::new("unwritable");
        fs::write(&folder.0, b"a file stands where the folder should be").unwrap();
        let cache = Cache::new(Some(folder.0.clone()));
        let key = Key::new([b"source".as_slice()]);
        cache.put(key, b"image");
        assert_eq!(cache.get(key), None);
        assert!(cache.check().is_err());
        assert!(Cache::new(Some(folder.0.join("below"))).check().is_err());
        fs::remove_file(&folder.0).unwrap();
        assert!(Cache::new(None).get(key).is_none());
        Cache::new(None).check().unwrap();
    }
}
