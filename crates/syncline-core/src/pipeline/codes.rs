//! Reading the symbols of a lossless chunk in pieces that stay in cache.

use super::context::Context;
use crate::error::Result;
use crate::huffman::{Checksum, Stream, StreamDecoder, Symbol};

/// Symbols in a group of a Huffman stream: as many as can be, as parts are decoded whole.
pub(super) const GROUP: usize = 1 << GROUP_LOG2;
/// Its binary logarithm.
pub(super) const GROUP_LOG2: u8 = 7;

/// Reads the Huffman stream that `bytes` start with, which must have the groups of `count` symbols, one codebook, and
/// the kind of index that the header of the stream states.
///
/// # Errors
/// Damage.
pub(super) fn read_stream<'a, S: Symbol>(context: &Context, bytes: &'a [u8], count: usize) -> Result<Stream<'a, S>> {
    let stream = Stream::<S>::parse(bytes, &context.place)?;
    let has_groups = stream.group_len() == GROUP && stream.groups() == count.div_ceil(GROUP);
    if !has_groups || stream.needs_classes() || stream.index_kind() != context.header.index {
        return Err(context.corrupt("a Huffman stream does not fit its elements, or has another index than the header"));
    }
    Ok(stream)
}

/// Symbols decoded at a time with the symbol index: with two bytes each, half of a small L1 cache.
const BATCH: usize = 8192;

/// Memory for decoded symbols.
#[derive(Debug)]
pub(super) struct CodeBuffer<S>(Vec<S>);

impl<S> Default for CodeBuffer<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Returns the symbols of groups in ascending order. If the stream has a suitable index, groups are decoded on request.
pub(super) struct CodeReader<'b, 's, 'a, S> {
    stream: &'s Stream<'a, S>,
    decoder: StreamDecoder<'s, 'a, S>,
    buffer: &'b mut Vec<S>,
    /// Groups in the buffer.
    first: usize,
    end: usize,
    /// The checksum of the groups decoded so far, as long as none was skipped.
    checksum: Option<Checksum>,
}

impl<'b, 's, 'a, S: Symbol> CodeReader<'b, 's, 'a, S> {
    pub(super) fn new(
        stream: &'s Stream<'a, S>,
        decoder: StreamDecoder<'s, 'a, S>,
        buffer: &'b mut CodeBuffer<S>,
    ) -> Result<Self> {
        let buffer = &mut buffer.0;
        buffer.clear();
        let mut reader = Self { stream, decoder, buffer, first: 0, end: 0, checksum: Some(Checksum::default()) };
        if !reader.decoder.can_decode_groups() {
            // The number of symbols was checked against the tiles of the chunk by the caller.
            reader.buffer.resize(stream.symbols(), S::truncate(0));
            reader.decoder.decode(reader.buffer, rayon::current_num_threads())?;
            reader.end = stream.groups();
            reader.checksum = None;
        }
        Ok(reader)
    }

    /// Returns the symbols of groups `first..first + count`, all of which must be in the stream.
    #[inline]
    pub(super) fn groups(&mut self, first: usize, count: usize) -> Result<&[S]> {
        let length = self.stream.group_len();
        if first < self.first || first + count > self.end {
            self.load(first, count)?;
        }
        let start = (first - self.first) * length;
        Ok(&self.buffer[start..start + count * length])
    }

    #[cold]
    fn load(&mut self, first: usize, count: usize) -> Result<()> {
        let length = self.stream.group_len();
        // A tile's groups may cross the end of a batch: the groups that are already decoded move to the front.
        let kept = if (self.first..self.end).contains(&first) { self.end - first } else { 0 };
        self.buffer.copy_within((self.end - self.first - kept) * length..(self.end - self.first) * length, 0);
        if first + kept != self.end {
            self.checksum = None;
        }
        let end = (first + (BATCH / length).max(count)).min(self.stream.groups());
        self.buffer.resize((end - first) * length, S::truncate(0));
        let part = self.decoder.decode_groups(first + kept..end, &mut self.buffer[kept * length..])?;
        if let Some(checksum) = &mut self.checksum {
            checksum.add(part);
        }
        (self.first, self.end) = (first, end);
        Ok(())
    }

    /// Compares the checksum if all groups were read.
    pub(super) fn finish(self) -> Result<()> {
        match self.checksum {
            Some(checksum) if self.end == self.stream.groups() => self.stream.verify(checksum),
            _ => Ok(()),
        }
    }
}
