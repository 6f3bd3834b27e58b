//! Parts of chunks.

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use syncline::{ElementType, SparseBytes, StreamFile};
use zarrs_chunk_grid::{ArraySubset, Indexer};
use zarrs_codec::{
    ArrayBytes, ArrayBytesRaw, ArrayPartialDecoderTraits, ArrayToBytesCodecTraits, BytesPartialDecoderTraits,
    CodecError, CodecOptions,
};
use zarrs_data_type::{DataType, FillValue};
use zarrs_storage::StorageError;
use zarrs_storage::byte_range::ByteRange;

use crate::codec::{SynclineCodec, check, decompress_options, failure};

/// Bytes that are fetched from the start of a chunk to read a part of it, and from its end if it is a stream of several
/// chunks. A chunk that is shorter is fetched whole.
const END_BYTES: u64 = 20 << 10;

/// Decodes parts of one chunk.
pub struct PartialDecoder {
    pub codec: Arc<SynclineCodec>,
    pub input: Arc<dyn BytesPartialDecoderTraits>,
    pub shape: Vec<NonZeroU64>,
    pub element: ElementType,
    pub data_type: DataType,
    pub fill_value: FillValue,
}

impl PartialDecoder {
    /// Decodes a region. Two requests one after another fetch its bytes: those of the stream's start, and of the
    /// region. There are two more if the stream has several chunks: for its end, and for the start of the region's
    /// chunks. Returns `None` if the chunk is missing.
    fn region(&self, region: &[Range<u64>], options: &CodecOptions) -> Result<Option<Vec<u8>>, CodecError> {
        let get = |range| self.input.partial_decode(range, options);
        // For a range past the end of a short chunk, stores return an error or fewer bytes. The end is requested after
        // the start, because some stores panic for a suffix that is longer than the chunk.
        let head = match get(ByteRange::FromStart(0, Some(END_BYTES))) {
            Ok(Some(head)) if head.len() as u64 == END_BYTES => head,
            Ok(None) => return Ok(None),
            Ok(Some(_)) | Err(_) => return self.whole_then(region, options),
        };
        // If the chunk is rewritten or removed between two requests, their answers are of different streams. The whole
        // chunk is one request.
        self.region_after(head.into_owned(), region, options).map_or_else(|_| self.whole_then(region, options), Ok)
    }

    /// Decodes a region of a chunk whose first bytes were fetched.
    fn region_after(
        &self,
        head: Vec<u8>,
        region: &[Range<u64>],
        options: &CodecOptions,
    ) -> Result<Option<Vec<u8>>, CodecError> {
        let get = |range| self.input.partial_decode(range, options);
        let missing = || CodecError::Other("the chunk was removed while it was read".into());
        let mut bytes = match SparseBytes::from_head(head.clone()).map_err(failure)? {
            Some(bytes) => bytes,
            None => {
                let tail = get(ByteRange::Suffix(END_BYTES))?.ok_or_else(missing)?;
                SparseBytes::from_ends(head, tail.into_owned()).map_err(failure)?
            }
        };
        check(bytes.header(), &self.shape, self.element)?;
        if let Some(range) = bytes.missing() {
            let piece = get(ByteRange::new(range.clone()))?.ok_or_else(missing)?;
            bytes.insert(range.start, piece.to_vec());
        }
        let mut stream = StreamFile::open(bytes).map_err(failure)?;
        loop {
            let ranges = stream.missing_ranges(region).map_err(failure)?;
            if ranges.is_empty() {
                break;
            }
            let wanted: Vec<ByteRange> = ranges.iter().cloned().map(ByteRange::new).collect();
            let pieces = self.input.partial_decode_many(Box::new(wanted.into_iter()), options)?.ok_or_else(missing)?;
            for (range, piece) in ranges.iter().zip(pieces) {
                if piece.len() as u64 != range.end - range.start {
                    return Err(missing());
                }
                stream.source_mut().insert(range.start, piece.into_owned());
            }
        }
        let part = stream.decompress_region(region, &decompress_options()).map_err(failure)?;
        Ok(Some(part.bytes().to_vec()))
    }

    /// Fetches the whole chunk and decodes a region of it.
    fn whole_then(&self, region: &[Range<u64>], options: &CodecOptions) -> Result<Option<Vec<u8>>, CodecError> {
        match self.input.decode(options)? {
            Some(bytes) => self.decode_region(&bytes, region).map(Some),
            None => Ok(None),
        }
    }

    /// Decodes a region of a chunk that has been fetched completely.
    fn decode_region(&self, bytes: &ArrayBytesRaw<'_>, region: &[Range<u64>]) -> Result<Vec<u8>, CodecError> {
        let stream = StreamFile::open(&bytes[..]).map_err(failure)?;
        check(stream.header(), &self.shape, self.element)?;
        if stream.header().shape.extents().len() != region.len() {
            return self.decode_flat(&stream, region);
        }
        let part = stream.decompress_region(region, &decompress_options()).map_err(failure)?;
        Ok(part.bytes().to_vec())
    }

    /// Decodes a region of a chunk whose stream has no shape.
    fn decode_flat(&self, stream: &StreamFile<&[u8]>, region: &[Range<u64>]) -> Result<Vec<u8>, CodecError> {
        let whole = stream.decompress(&decompress_options()).map_err(failure)?;
        let whole = ArrayBytes::new_flen(whole.bytes());
        let extents: Vec<u64> = self.shape.iter().map(|extent| extent.get()).collect();
        let part = whole.extract_array_subset(&ArraySubset::new_with_ranges(region), &extents, &self.data_type)?;
        Ok(part.into_fixed()?.into_owned())
    }
}

impl ArrayPartialDecoderTraits for PartialDecoder {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn exists(&self) -> Result<bool, StorageError> {
        self.input.exists()
    }

    fn size_held(&self) -> usize {
        self.input.size_held()
    }

    fn partial_decode(&self, indexer: &dyn Indexer, options: &CodecOptions) -> Result<ArrayBytes<'_>, CodecError> {
        // The slowest axes of more than four are merged in the stream, so that a region is none there.
        let region = (self.shape.len() <= 4).then(|| indexer.as_array_subset()).flatten();
        let fill = || ArrayBytes::new_fill_value(&self.data_type, indexer.len(), &self.fill_value);
        if let Some(region) = region {
            let part = self.region(&region.to_ranges(), options)?;
            return part.map_or_else(|| Ok(fill()?), |part| Ok(ArrayBytes::new_flen(part)));
        }
        let Some(bytes) = self.input.decode(options)? else { return Ok(fill()?) };
        let whole = self.codec.decode(bytes, &self.shape, &self.data_type, &self.fill_value, options)?;
        let extents: Vec<u64> = self.shape.iter().map(|extent| extent.get()).collect();
        Ok(whole.extract_array_subset(indexer, &extents, &self.data_type)?.into_owned())
    }

    fn supports_partial_decode(&self) -> bool {
        true
    }
}
