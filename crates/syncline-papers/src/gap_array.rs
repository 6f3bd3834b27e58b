//! Gap arrays: for each subsequence of a stream without an index, the number of bits from its start to the first
//! codeword that starts in it or after it, or to the end of the codewords if no codeword does.
//!
//! A gap takes a byte, as in Yamamoto et al., "Huffman Coding with Gap Arrays for GPU Acceleration", ICPP 2020.
//! [`gap_array_2020`](crate::gap_array_2020) computes them while encoding; [`of_stream`] is its oracle.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView};
use syncline_core::huffman::{SUBSEQUENCE_BITS, Stream, Symbol};
use syncline_cuda::error::{CudaError, DriverContext, Result};
use syncline_cuda::huffman::decode::SEQUENCE;
use syncline_cuda::huffman::decode::batch::BatchSizes;

/// Returns the gap array of a stream with one codebook and these symbols.
pub fn of_stream<S: Symbol>(stream: &Stream<'_, S>, symbols: &[S]) -> Vec<u8> {
    let lengths = stream.codebooks().first().map_or(&[][..], |codebook| codebook.lengths());
    let mut gaps = vec![0; stream.codeword_bits().div_ceil(SUBSEQUENCE_BITS) as usize];
    let mut end = 0;
    let coded = symbols.chunks(stream.group_len()).enumerate().filter(|&(group, _)| !stream.is_zero_bit(group));
    for symbol in coded.flat_map(|(_, symbols)| symbols) {
        let start = end;
        end += u32::from(lengths[symbol.index()]);
        // No codeword is as long as a subsequence.
        let subsequence = end / SUBSEQUENCE_BITS;
        if subsequence > start / SUBSEQUENCE_BITS && (subsequence as usize) < gaps.len() {
            gaps[subsequence as usize] = (end % SUBSEQUENCE_BITS) as u8;
        }
    }
    gaps
}

/// The gap arrays of a batch of streams, in device memory.
#[derive(Debug)]
pub struct GapArrays(CudaSlice<u8>);

impl GapArrays {
    /// Copies the gap arrays of a batch's streams, in their order, to the device.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, arrays: &[Vec<u8>]) -> Result<Self> {
        let mut all = Vec::new();
        for array in arrays {
            all.extend_from_slice(array);
            // Streams start at whole sequences.
            all.resize(all.len().next_multiple_of(SEQUENCE as usize), 0);
        }
        all.resize(all.len().max(1), 0);
        stream.clone_htod(&all).doing("copying gap arrays").map(Self)
    }

    /// Returns the gaps, for a batch of these sizes.
    pub(crate) fn of_batch(&self, sizes: &BatchSizes) -> Result<CudaView<'_, u8>> {
        match self.0.len() < sizes.subsequences as usize {
            true => Err(CudaError::invalid("there are fewer gaps than the streams have subsequences")),
            false => Ok(self.0.as_view()),
        }
    }
}
