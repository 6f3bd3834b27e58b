//! Device memory: allocations in host memory, with a table of their ranges.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// Fills new allocations, so that reading uninitialized memory gives conspicuous values.
pub const POISON: u8 = 0xA5;

/// Alignment of allocations in bytes, as in the real driver.
const ALIGN: usize = 512;

/// The allocations by their start addresses.
#[derive(Debug, Default)]
pub struct Memory {
    pieces: RwLock<BTreeMap<u64, Piece>>,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    bytes: usize,
    /// Whether the memory was allocated here; otherwise it is registered host memory.
    own: bool,
}

impl Memory {
    /// Returns a table without allocations.
    pub const fn new() -> Self {
        Self { pieces: RwLock::new(BTreeMap::new()) }
    }

    /// Allocates `bytes` bytes and fills them with [`POISON`]. Returns the address, or `None` if there is not enough
    /// memory or `bytes` is 0.
    pub fn allocate(&self, bytes: usize) -> Option<u64> {
        let layout = Layout::from_size_align(bytes, ALIGN).ok().filter(|layout| layout.size() > 0)?;
        // SAFETY: the size of the layout is not 0.
        let pointer = unsafe { alloc(layout) };
        if pointer.is_null() {
            return None;
        }
        // SAFETY: `pointer` is valid for the `bytes` bytes that were just allocated.
        unsafe { pointer.write_bytes(POISON, bytes) };
        self.insert(pointer as u64, Piece { bytes, own: true });
        Some(pointer as u64)
    }

    /// Registers `bytes` bytes of host memory at `address`: page-locked memory, which kernels may access.
    pub fn register(&self, address: u64, bytes: usize) {
        self.insert(address, Piece { bytes, own: false });
    }

    fn insert(&self, address: u64, piece: Piece) {
        self.pieces.write().unwrap_or_else(PoisonError::into_inner).insert(address, piece);
    }

    /// Removes the entry that starts at `address`, and frees its memory if it was allocated here. Returns whether there
    /// was one.
    pub fn release(&self, address: u64) -> bool {
        let piece = self.pieces.write().unwrap_or_else(PoisonError::into_inner).remove(&address);
        let Some(piece) = piece else { return false };
        if piece.own
            && let Ok(layout) = Layout::from_size_align(piece.bytes, ALIGN)
        {
            // SAFETY: the memory was allocated here with this layout, and its entry has been removed.
            unsafe { dealloc(address as *mut u8, layout) };
        }
        true
    }

    /// Returns the start and the length in bytes of the allocation that contains `address`.
    pub fn piece(&self, address: u64) -> Option<(u64, usize)> {
        let pieces = self.pieces.read().unwrap_or_else(PoisonError::into_inner);
        let (&start, piece) = pieces.range(..=address).next_back()?;
        (address - start < piece.bytes as u64).then_some((start, piece.bytes))
    }

    /// Returns the number of allocated bytes.
    pub fn allocated(&self) -> usize {
        let pieces = self.pieces.read().unwrap_or_else(PoisonError::into_inner);
        pieces.values().filter(|piece| piece.own).map(|piece| piece.bytes).sum()
    }
}
