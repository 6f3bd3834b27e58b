//! Device memory: the host's own, with a list of what was allocated.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// What fresh memory holds, so that whoever reads it before writing it reads nonsense.
pub const POISON: u8 = 0xA5;

/// Allocations start on multiples of that, as the driver's do.
const ALIGN: usize = 512;

/// What was allocated, by where it starts.
#[derive(Debug, Default)]
pub struct Memory {
    pieces: RwLock<BTreeMap<u64, Piece>>,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    bytes: usize,
    /// Whether it was allocated here; otherwise it is the host's and only known.
    own: bool,
}

impl Memory {
    /// Memory without allocations.
    pub const fn new() -> Self {
        Self { pieces: RwLock::new(BTreeMap::new()) }
    }

    /// Allocates `bytes` and fills them with [`POISON`]; the address, or `None` if there is no memory or nothing is
    /// asked for.
    pub fn allocate(&self, bytes: usize) -> Option<u64> {
        let layout = Layout::from_size_align(bytes, ALIGN).ok().filter(|layout| layout.size() > 0)?;
        // SAFETY: the layout's size is not 0.
        let pointer = unsafe { alloc(layout) };
        if pointer.is_null() {
            return None;
        }
        // SAFETY: as many bytes as were just allocated.
        unsafe { pointer.write_bytes(POISON, bytes) };
        self.insert(pointer as u64, Piece { bytes, own: true });
        Some(pointer as u64)
    }

    /// Makes `bytes` of the host's at `address` known: locked pages, which kernels may reach, too.
    pub fn register(&self, address: u64, bytes: usize) {
        self.insert(address, Piece { bytes, own: false });
    }

    fn insert(&self, address: u64, piece: Piece) {
        self.pieces.write().unwrap_or_else(PoisonError::into_inner).insert(address, piece);
    }

    /// Forgets what starts at `address`, and frees it if it was allocated here; whether there was something.
    pub fn release(&self, address: u64) -> bool {
        let piece = self.pieces.write().unwrap_or_else(PoisonError::into_inner).remove(&address);
        let Some(piece) = piece else { return false };
        if piece.own
            && let Ok(layout) = Layout::from_size_align(piece.bytes, ALIGN)
        {
            // SAFETY: allocated here with this layout, and known no more.
            unsafe { dealloc(address as *mut u8, layout) };
        }
        true
    }

    /// Start and length in bytes of what `address` lies in.
    pub fn piece(&self, address: u64) -> Option<(u64, usize)> {
        let pieces = self.pieces.read().unwrap_or_else(PoisonError::into_inner);
        let (&start, piece) = pieces.range(..=address).next_back()?;
        (address - start < piece.bytes as u64).then_some((start, piece.bytes))
    }

    /// Bytes allocated here.
    pub fn allocated(&self) -> usize {
        let pieces = self.pieces.read().unwrap_or_else(PoisonError::into_inner);
        pieces.values().filter(|piece| piece.own).map(|piece| piece.bytes).sum()
    }
}
