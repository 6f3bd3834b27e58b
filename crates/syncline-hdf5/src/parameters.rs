//! The filter's parameters in a file, the `cd_values`: 32-bit numbers that HDF5 stores independently of byte order.
//!
//! | number | meaning |
//! |---|---|
//! | 0 | version of this table: 1 |
//! | 1 | kind of bound: 0 lossless, 1 absolute, 2 relative to the range of a chunk, 3 PSNR, 4 relative to each value |
//! | 2, 3 | the bound, an IEEE 754 binary64: lower and upper half |
//! | 4 | fill value: 0 that of the dataset, or else a detected one; 1 none; 2 the following |
//! | 5, 6 | the fill value, as the bound |
//! | 7 | coder + 256 * level + 65536 * effort, each 0 for the default |
//! | 8 | element type of the stream + 256 if elements are big-endian |
//! | 9 | number of axes of a chunk, 1 to 32 |
//! | 10... | extents of a chunk, slowest axis first: lower and upper half of each |
//!
//! Coders are 1 auto, 2 Huffman, 3 LZSS, and 4 LZSS and Huffman; efforts are 1 fast, 2 balanced, and 3 best.
//!
//! Users give the first eight or fewer; missing ones are 0. `set_local` appends the others.

use std::ffi::c_int;

use syncline::{Backend, Bound, Coder, CompressOptions, Effort, ElementType, Error, Fill, Shape};

/// The number of the filter, from the range that HDF5 leaves to filters that are not registered (docs/HDF5.md).
pub const ID: c_int = 47_501;

/// Count of numbers that users give.
pub const USER: usize = 8;

/// Version of the table.
pub const VERSION: u32 = 1;

/// The contents of the filter's parameters.
pub struct Parameters {
    values: Vec<u32>,
}

impl Parameters {
    /// Takes the part of the parameters that users give.
    pub fn from_user(values: &[u32]) -> Result<Self, Error> {
        let mut values = values[..values.len().min(USER)].to_vec();
        // Without parameters, or with only the version, the filter is lossless.
        values.resize(USER, 0);
        if values.iter().all(|&value| value == 0) {
            values[0] = VERSION;
        }
        let parameters = Self { values };
        parameters.check_version()?;
        parameters.compress_options(None)?;
        Ok(parameters)
    }

    /// Takes parameters that `set_local` has completed.
    pub fn complete(values: &[u32]) -> Result<Self, Error> {
        let rank = values.get(USER + 1).copied().unwrap_or(0) as usize;
        if rank == 0 || values.len() < USER + 2 + 2 * rank {
            return Err(Error::InvalidArgument("the parameters of the filter are incomplete".into()));
        }
        let parameters = Self { values: values.to_vec() };
        parameters.check_version()?;
        Ok(parameters)
    }

    fn check_version(&self) -> Result<(), Error> {
        let version = self.values[0];
        if version == VERSION {
            return Ok(());
        }
        let text = format!("the parameters of the filter have version {version}, and this library reads {VERSION}");
        Err(Error::InvalidArgument(text))
    }

    /// Returns whether the fill value is that of the dataset.
    pub fn wants_fill_of_dataset(&self) -> bool {
        self.values[4] == 0
    }

    /// Sets the fill value.
    pub fn set_fill(&mut self, value: f64) {
        let bits = value.to_bits();
        self.values[4..7].copy_from_slice(&[2, bits as u32, (bits >> 32) as u32]);
    }

    /// Appends the type and the extents of a chunk, and returns all numbers.
    pub fn with_chunk(mut self, element: ElementType, is_big_endian: bool, extents: &[u64]) -> Vec<u32> {
        self.values.push(element as u32 | u32::from(is_big_endian) << 8);
        self.values.push(extents.len() as u32);
        self.values.extend(extents.iter().flat_map(|&extent| [extent as u32, (extent >> 32) as u32]));
        self.values
    }

    /// Returns the element type of a chunk.
    pub fn element(&self) -> Result<ElementType, Error> {
        let code = self.values[USER] as u8;
        ElementType::from_code(code).ok_or_else(|| Error::InvalidArgument(format!("element type {code} is unknown")))
    }

    /// Returns whether elements are big-endian in the file.
    pub fn is_big_endian(&self) -> bool {
        self.values[USER] >> 8 == 1
    }

    /// Returns the shape of a chunk.
    pub fn shape(&self) -> Result<Shape, Error> {
        let rank = self.values[USER + 1] as usize;
        let extents = self.values[USER + 2..].chunks_exact(2).take(rank);
        Shape::new(&extents.map(|halves| u64::from(halves[1]) << 32 | u64::from(halves[0])).collect::<Vec<_>>())
    }

    /// Returns the options for chunks of this type. Integers and types without a lossy pipeline are lossless.
    pub fn compress_options(&self, element: Option<ElementType>) -> Result<CompressOptions, Error> {
        let mode = self.values[1];
        let bound = u8::try_from(mode).ok().and_then(|code| Bound::from_code(code, self.number(2)));
        let bound = bound.ok_or_else(|| Error::InvalidArgument(format!("kind of bound {mode} is unknown")))?;
        let bound = if element.is_some_and(|element| !element.is_lossy_capable()) { Bound::Lossless } else { bound };
        if let Some(element) = element {
            bound.validate(element)?;
        }
        let fill = match self.values[4] {
            1 => Fill::None,
            2 => Fill::Value(self.number(5)),
            _ => Fill::Auto,
        };
        let options = CompressOptions::new(bound).with_fill(fill).with_threads(1).with_backend(Backend::Cpu);
        let options = match self.values[7] & 255 {
            0 => options,
            1 => options.with_coder(Coder::Auto),
            2 => options.with_coder(Coder::Huffman),
            3 => options.with_coder(Coder::Lzss),
            4 => options.with_coder(Coder::LzssHuffman),
            other => return Err(Error::InvalidArgument(format!("coder {other} is unknown"))),
        };
        let options = match (self.values[7] >> 8) as u8 {
            0 => options,
            level @ 1..=9 => options.with_level(level),
            other => return Err(Error::InvalidArgument(format!("level {other} is unknown"))),
        };
        match self.values[7] >> 16 {
            0 => Ok(options),
            1 => Ok(options.with_effort(Effort::Fast)),
            2 => Ok(options.with_effort(Effort::Balanced)),
            3 => Ok(options.with_effort(Effort::Best)),
            other => Err(Error::InvalidArgument(format!("effort {other} is unknown"))),
        }
    }

    /// Returns the binary64 whose halves start at number `at`.
    fn number(&self, at: usize) -> f64 {
        f64::from_bits(u64::from(self.values[at + 1]) << 32 | u64::from(self.values[at]))
    }
}
