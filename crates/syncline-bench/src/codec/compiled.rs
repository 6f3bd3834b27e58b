//! Lossless codecs of other projects that are compiled in.

use anyhow::{Result, bail};
use bytemuck::{cast_slice, try_cast_slice};
use pco::ChunkConfig;
use pco::data_types::Number;
use pco::standalone::{simple_compress, simple_decompress};
use syncline::ElementType;

use super::{Codec, Timed};
use crate::array::Array;

/// Returns all of them, with their default options or usual levels.
pub(super) fn all() -> Vec<Codec> {
    vec![pcodec(), zstandard(1), zstandard(3), lz4()]
}

fn codec(
    name: &str,
    options: &str,
    compress: impl Fn(&Array) -> Result<Vec<u8>> + 'static,
    decompress: impl Fn(&Array, &[u8]) -> Result<Vec<u8>> + 'static,
) -> Codec {
    Codec::other(
        name,
        options,
        move |array, _, clock| Timed::run(clock, || compress(array)),
        move |array, stream, clock| Timed::run(clock, || decompress(array, stream)),
    )
}

fn zstandard(level: i32) -> Codec {
    codec(
        "zstd",
        &format!("level {level}"),
        move |array| Ok(zstd::bulk::compress(&array.bytes, level)?),
        |array, stream| Ok(zstd::bulk::decompress(stream, array.bytes.len())?),
    )
}

fn lz4() -> Codec {
    codec(
        "lz4",
        "",
        |array| Ok(lz4::block::compress(&array.bytes, None, false)?),
        |array, stream| Ok(lz4::block::decompress(stream, Some(i32::try_from(array.bytes.len())?))?),
    )
}

fn pcodec() -> Codec {
    fn to<T: Number + bytemuck::Pod>(bytes: &[u8]) -> Result<Vec<u8>> {
        let numbers = try_cast_slice::<u8, T>(bytes).map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(simple_compress(numbers, &ChunkConfig::default())?)
    }
    fn from<T: Number + bytemuck::Pod>(stream: &[u8]) -> Result<Vec<u8>> {
        Ok(cast_slice::<T, u8>(&simple_decompress::<T>(stream)?).to_vec())
    }
    macro_rules! by_element {
        ($element:expr, $call:ident, $bytes:expr) => {
            match $element {
                // It has no bf16, whose bits it takes, and f16 only with another crate.
                ElementType::U16 | ElementType::F16 | ElementType::Bf16 => $call::<u16>($bytes),
                ElementType::I16 => $call::<i16>($bytes),
                ElementType::U32 => $call::<u32>($bytes),
                ElementType::I32 => $call::<i32>($bytes),
                ElementType::F32 => $call::<f32>($bytes),
                ElementType::U64 => $call::<u64>($bytes),
                ElementType::I64 => $call::<i64>($bytes),
                ElementType::F64 => $call::<f64>($bytes),
                other => bail!("pcodec has no {other}"),
            }
        };
    }
    codec(
        "pcodec",
        "",
        |array| by_element!(array.element, to, &array.bytes),
        |array, stream| by_element!(array.element, from, stream),
    )
}
