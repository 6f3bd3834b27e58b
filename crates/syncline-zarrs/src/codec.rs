//! Whole chunks.

use std::any::Any;
use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;

use syncline::{ArrayView, Backend, Bound, DecompressOptions, ElementType, Header, Shape, StreamFile};
use zarrs_codec::{
    ArrayBytes, ArrayBytesRaw, ArrayCodecTraits, ArrayPartialDecoderTraits, ArrayToBytesCodecTraits,
    BytesPartialDecoderTraits, BytesRepresentation, Codec, CodecError, CodecMetadataOptions, CodecOptions,
    CodecPluginV2, CodecPluginV3, CodecTraits, CodecTraitsV2, CodecTraitsV3, PartialDecoderCapability,
    PartialEncoderCapability, RecommendedConcurrency,
};
use zarrs_data_type::{DataType, FillValue};
use zarrs_metadata::Configuration;
use zarrs_metadata::v2::MetadataV2;
use zarrs_metadata::v3::MetadataV3;
use zarrs_plugin::{ExtensionName, PluginCreateError, ZarrVersion};

use crate::configuration::SynclineConfiguration;
use crate::padding::without_padding;
use crate::partial::PartialDecoder;

/// The codec `syncline`, which turns chunks into Syncline streams.
///
/// Use it as the array-to-bytes codec without codecs after it: what follows would see compressed bytes, and would make
/// zarrs read whole chunks.
#[derive(Clone, Debug, PartialEq)]
pub struct SynclineCodec {
    configuration: SynclineConfiguration,
}

zarrs_plugin::impl_extension_aliases!(SynclineCodec, v3: "syncline", v2: "syncline");

inventory::submit! {
    CodecPluginV3::new::<SynclineCodec>()
}

// The codec of the package numcodecs, whose chunks are the same streams.
inventory::submit! {
    CodecPluginV2::new::<SynclineCodec>()
}

impl SynclineCodec {
    /// Makes the codec for a bound.
    ///
    /// # Errors
    /// [`InvalidArgument`](syncline::Error::InvalidArgument) if the bound is not a positive number.
    pub fn new(bound: Bound) -> syncline::Result<Self> {
        Self::with_configuration(SynclineConfiguration::new(bound))
    }

    /// Makes the codec for settings.
    ///
    /// # Errors
    /// [`InvalidArgument`](syncline::Error::InvalidArgument) if they are not valid.
    pub fn with_configuration(configuration: SynclineConfiguration) -> syncline::Result<Self> {
        configuration.options(None)?;
        Ok(Self { configuration })
    }

    /// Returns the settings.
    pub fn settings(&self) -> &SynclineConfiguration {
        &self.configuration
    }
}

impl CodecTraitsV3 for SynclineCodec {
    fn create(metadata: &MetadataV3) -> Result<Codec, PluginCreateError> {
        made(metadata.to_typed_configuration()?)
    }
}

impl CodecTraitsV2 for SynclineCodec {
    fn create(metadata: &MetadataV2) -> Result<Codec, PluginCreateError> {
        made(metadata.to_typed_configuration()?)
    }
}

/// Makes the codec for settings in array metadata.
fn made(configuration: SynclineConfiguration) -> Result<Codec, PluginCreateError> {
    let codec = SynclineCodec::with_configuration(configuration);
    let codec = codec.map_err(|error| PluginCreateError::Other(error.to_string()))?;
    Ok(Codec::ArrayToBytes(Arc::new(codec)))
}

impl CodecTraits for SynclineCodec {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn configuration(&self, _: ZarrVersion, _: &CodecMetadataOptions) -> Option<Configuration> {
        match serde_json::to_value(&self.configuration) {
            Ok(serde_json::Value::Object(settings)) => Some(Configuration::from(settings)),
            _ => None,
        }
    }

    fn partial_decoder_capability(&self) -> PartialDecoderCapability {
        PartialDecoderCapability { partial_read: true, partial_decode: true }
    }

    fn partial_encoder_capability(&self) -> PartialEncoderCapability {
        PartialEncoderCapability { partial_encode: false }
    }
}

impl ArrayCodecTraits for SynclineCodec {
    fn recommended_concurrency(&self, _: &[NonZeroU64], _: &DataType) -> Result<RecommendedConcurrency, CodecError> {
        // zarrs works on many chunks at once.
        Ok(RecommendedConcurrency::new_maximum(1))
    }
}

impl ArrayToBytesCodecTraits for SynclineCodec {
    fn into_dyn(self: Arc<Self>) -> Arc<dyn ArrayToBytesCodecTraits> {
        self
    }

    fn encoded_representation(
        &self,
        shape: &[NonZeroU64],
        data_type: &DataType,
        _: &FillValue,
    ) -> Result<BytesRepresentation, CodecError> {
        let element = element_of(data_type)?;
        self.configuration.check_type(element).map_err(failure)?;
        let shape = stored_shape(shape).map_err(failure)?;
        Ok(BytesRepresentation::BoundedSize(syncline::compress_bound(element, shape)))
    }

    fn encode<'a>(
        &self,
        bytes: ArrayBytes<'a>,
        shape: &[NonZeroU64],
        data_type: &DataType,
        fill_value: &FillValue,
        _: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        let element = element_of(data_type)?;
        self.configuration.check_type(element).map_err(failure)?;
        let bytes = bytes.into_fixed()?;
        let work = || {
            let shape = stored_shape(shape)?;
            let array = ArrayView::from_bytes(&bytes, element, shape)?;
            let options = self.configuration.options(number_of(fill_value, element))?;
            let options = without_padding(options, &bytes, element, shape)?;
            syncline::compress(&array, &options.with_threads(1).with_backend(Backend::Cpu))
        };
        work().map(Cow::Owned).map_err(failure)
    }

    fn decode<'a>(
        &self,
        bytes: ArrayBytesRaw<'a>,
        shape: &[NonZeroU64],
        data_type: &DataType,
        _: &FillValue,
        _: &CodecOptions,
    ) -> Result<ArrayBytes<'a>, CodecError> {
        let stream = StreamFile::open(&bytes[..]).map_err(failure)?;
        check(stream.header(), shape, element_of(data_type)?)?;
        let array = stream.decompress(&decompress_options()).map_err(failure)?;
        Ok(ArrayBytes::new_flen(array.bytes().to_vec()))
    }

    fn partial_decoder(
        self: Arc<Self>,
        input_handle: Arc<dyn BytesPartialDecoderTraits>,
        shape: &[NonZeroU64],
        data_type: &DataType,
        fill_value: &FillValue,
        _: &CodecOptions,
    ) -> Result<Arc<dyn ArrayPartialDecoderTraits>, CodecError> {
        let element = element_of(data_type)?;
        Ok(Arc::new(PartialDecoder {
            codec: self,
            input: input_handle,
            shape: shape.to_vec(),
            element,
            data_type: data_type.clone(),
            fill_value: fill_value.clone(),
        }))
    }
}

/// Options of the decompression of a chunk: zarrs works on many chunks at once.
pub fn decompress_options() -> DecompressOptions {
    DecompressOptions::new().with_threads(1).with_backend(Backend::Cpu)
}

/// Returns the error of zarrs for one of the library.
pub fn failure(error: syncline::Error) -> CodecError {
    CodecError::Other(error.to_string())
}

/// Checks that the stream of a chunk has the chunk's type and shape, before anything is allocated for it. Filters of
/// numcodecs, in format 2, give elements without their shape.
pub fn check(header: &Header, shape: &[NonZeroU64], element: ElementType) -> Result<(), CodecError> {
    let expected = stored_shape(shape).map_err(failure)?;
    let flat = [expected.len()];
    if header.element_type == element && [expected.extents(), &flat].contains(&header.shape.extents()) {
        return Ok(());
    }
    Err(CodecError::Other(format!(
        "the chunk holds {} of shape {}, not {element} of shape {expected}",
        header.element_type, header.shape
    )))
}

/// Returns the shape of the stream of a chunk. The slowest axes of more than four are merged; the chunk's shape is in
/// the array's metadata.
pub fn stored_shape(shape: &[NonZeroU64]) -> syncline::Result<Shape> {
    let extents: Vec<u64> = shape.iter().map(|extent| extent.get()).collect();
    match extents.len().checked_sub(3) {
        Some(merged @ 2..) => {
            let slowest = extents[..merged].iter().fold(1, |product: u64, &extent| product.saturating_mul(extent));
            Shape::new(&[&[slowest], &extents[merged..]].concat())
        }
        _ => Shape::new(&extents),
    }
}

/// Returns the element type of an array's data type.
fn element_of(data_type: &DataType) -> Result<ElementType, CodecError> {
    let name = data_type.name_v3().unwrap_or_default();
    let element = match name.as_ref() {
        "float16" => ElementType::F16,
        "bfloat16" => ElementType::Bf16,
        "float32" => ElementType::F32,
        "float64" => ElementType::F64,
        "int8" => ElementType::I8,
        "int16" => ElementType::I16,
        "int32" => ElementType::I32,
        "int64" => ElementType::I64,
        "uint8" => ElementType::U8,
        "uint16" => ElementType::U16,
        "uint32" => ElementType::U32,
        "uint64" => ElementType::U64,
        _ => return Err(CodecError::UnsupportedDataType(data_type.clone(), "syncline".into())),
    };
    Ok(element)
}

/// Returns the fill value of an array as a number.
fn number_of(fill_value: &FillValue, element: ElementType) -> Option<f64> {
    let mut bytes = fill_value.as_ne_bytes().to_vec();
    if cfg!(target_endian = "big") {
        bytes.reverse();
    }
    let mut bits = [0; 8];
    bits.get_mut(..bytes.len()).filter(|bits| bits.len() == element.size())?.copy_from_slice(&bytes);
    Some(element.number_of_bits(u64::from_le_bytes(bits)))
}
