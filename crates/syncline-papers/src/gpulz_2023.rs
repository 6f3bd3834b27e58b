//! The match search of GPULZ: Zhang, Tian, Di, Yu, Swany, Tao, Cappello, "GPULZ: Optimizing LZSS Lossless Compression
//! for Multi-byte Data on Modern GPUs", ICS 2023 (Section 3.3, kernel I; the tables of throughput over chunk, window,
//! and symbol size).
//!
//! Each thread compares its position with every position of the window, and one thread walks along the tokens. The
//! rule for the best match and the sections are those of Syncline's format, and laying out and moving tokens (kernels
//! II and III of the paper) are Syncline's own. [`encoder`] creates an [`Encoder`] that launches
//! `kernels/gpulz_2023/encode.cu`.

use syncline_core::lzss::{Params, SymbolWidth};

use syncline_cuda::device::{Device, Specialization, source};
use syncline_cuda::error::Result;
use syncline_cuda::lzss::{Encoder, KINDS, TokenSearch};

const SEARCH: TokenSearch = TokenSearch { source: source!("gpulz_2023/encode.cu"), kernel: "gpulz_2023_encode" };

/// Creates an encoder for symbols of `width` at a level from 1 to 9.
///
/// # Errors
/// The errors of [`Encoder::new`].
pub fn encoder(device: &Device, width: SymbolWidth, level: u8) -> Result<Encoder> {
    Encoder::with_search(device, width, level, SEARCH)
}

/// Returns the specializations for the compile check.
pub(crate) fn specializations(shared_memory: u32) -> Vec<Specialization> {
    KINDS.map(|(width, level)| SEARCH.specialization(&Params::new(width, level), shared_memory)).to_vec()
}
