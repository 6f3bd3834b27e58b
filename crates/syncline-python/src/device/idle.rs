//! Codecs that no Python object uses, kept because making one takes as long as compressing a hundred megabytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use syncline::Result;
use syncline::gpu::Compressor;

/// Most codecs that are kept for each GPU: as many threads can call functions of the module without making one.
const MOST: usize = 8;

static IDLE: Mutex<BTreeMap<usize, Vec<Arc<Mutex<Compressor>>>>> = Mutex::new(BTreeMap::new());

/// Returns a codec that was given back, or makes one.
///
/// # Errors
/// Those of [`Compressor::new`].
pub fn take(ordinal: usize) -> Result<Arc<Mutex<Compressor>>> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = idle.get_mut(&ordinal).and_then(Vec::pop);
    drop(idle);
    known.map_or_else(|| Compressor::new(ordinal).map(|codec| Arc::new(Mutex::new(codec))), Ok)
}

/// Keeps a codec for later, without the workspace that grows with the arrays.
pub fn give_back(ordinal: usize, codec: Arc<Mutex<Compressor>>) {
    codec.lock().unwrap_or_else(PoisonError::into_inner).free_workspace();
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = idle.entry(ordinal).or_default();
    if known.len() < MOST {
        known.push(codec);
    }
}
