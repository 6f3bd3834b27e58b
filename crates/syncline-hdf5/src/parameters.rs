//! The filter's parameters in a file, the `cd_values`: 32-bit numbers that HDF5 stores independently of byte order.
//!
//! | number | meaning |
//! |---|---|
//! | 0 | version of this table: 1 |
//! | 1 | kind of bound: 0 lossless, 1 absolute, 2 relative to the range of a chunk, 3 PSNR, 4 relative to each value |
//! | 2, 3 | the bound, an IEEE 754 binary64: lower and upper half |
//! | 4 | fill values: 0 that of the dataset, or else detected ones; 1 none; 2 to 5 one to four, which follow |
//! | 5, 6 | the first fill value, as the bound |
//! | 7 | effort: 0 the default, 1 fast, 2 balanced, 3 best; + 256 if chunks are written once |
//! | 8 | advanced options, 0 for the defaults; see [`Digits`] |
//! | 9... | the other fill values, as the bound |
//!
//! Chunks of which parts are written again keep an absolute bound, and one relative to each value, unless number 7 says
//! that they are written once.
//!
//! Users give these; of the first nine, missing ones are 0. `set_local` appends what it knows of a chunk:
//!
//! | number, counted from the first that is appended | meaning |
//! |---|---|
//! | 0 | element type of the stream + 256 if elements are big-endian + 512 if a Fletcher-32 checksum follows a chunk |
//! | 1 | number of axes of a chunk, 1 to 32 |
//! | 2... | extents of a chunk, slowest axis first: lower and upper half of each |

use std::ffi::c_int;

use syncline::{
    Advanced, Backend, Bound, Coder, CompressOptions, Effort, ElementType, Error, Fill, IndexKind, MAX_FILLS, Shape,
    SymbolWidth,
};

/// The number of the filter, from the range that HDF5 leaves to filters that are not registered (docs/HDF5.md).
pub const ID: c_int = 47_501;

/// Count of numbers that users give with at most one fill value.
const USER: usize = 9;

/// Number 4 for one fill value.
const ONE_FILL: u32 = 2;

/// Number 4 for as many fill values as a stream holds.
const MOST_FILLS: u32 = ONE_FILL + MAX_FILLS as u32 - 1;

/// The part of number 7 that says that chunks are written once: streams are smaller, and parts that are written later
/// add errors to the rest of a chunk.
pub const ONCE: u32 = 1 << 8;

/// Version of the table.
pub const VERSION: u32 = 1;

/// The contents of the filter's parameters.
pub struct Parameters {
    values: Vec<u32>,
}

impl Parameters {
    /// Takes the part of the parameters that users give.
    pub fn from_user(values: &[u32]) -> Result<Self, Error> {
        let mut values = values.to_vec();
        // Without parameters, or with only the version, the filter is lossless.
        values.resize(values.len().max(USER), 0);
        let count = user_count(&values);
        if values.len() < count {
            return Err(Error::InvalidArgument(format!("{count} numbers have room for the fill values, not fewer")));
        }
        values.truncate(count);
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
        let user = if values.len() < USER { USER } else { user_count(values) };
        let rank = values.get(user + 1).copied().unwrap_or(0) as usize;
        if rank == 0 || (values.len() - user - 2) / 2 < rank {
            let text = "the parameters of the filter in the file do not describe a chunk: create the dataset again";
            return Err(Error::InvalidArgument(text.into()));
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

    /// Makes compression lossless.
    pub fn set_lossless(&mut self) {
        self.values[1..4].copy_from_slice(&[u32::from(Bound::Lossless.code()), 0, 0]);
    }

    /// Sets the fill value.
    pub fn set_fill(&mut self, value: f64) {
        let bits = value.to_bits();
        self.values[4..7].copy_from_slice(&[ONE_FILL, bits as u32, (bits >> 32) as u32]);
    }

    /// Appends the type and the extents of a chunk, and whether a checksum follows its elements. Returns all numbers.
    pub fn with_chunk(
        mut self,
        element: ElementType,
        is_big_endian: bool,
        has_checksum: bool,
        extents: &[u64],
    ) -> Vec<u32> {
        self.values.push(element as u32 | u32::from(is_big_endian) << 8 | u32::from(has_checksum) << 9);
        self.values.push(extents.len() as u32);
        self.values.extend(extents.iter().flat_map(|&extent| [extent as u32, (extent >> 32) as u32]));
        self.values
    }

    /// Returns the element type of a chunk.
    pub fn element(&self) -> Result<ElementType, Error> {
        let code = self.of_chunk()[0] as u8;
        ElementType::from_code(code).ok_or_else(|| Error::InvalidArgument(format!("element type {code} is unknown")))
    }

    /// Returns whether elements are big-endian in the file.
    pub fn is_big_endian(&self) -> bool {
        self.of_chunk()[0] >> 8 & 1 == 1
    }

    /// Returns whether a Fletcher-32 checksum follows the elements of a chunk before compression.
    pub fn has_checksum(&self) -> bool {
        self.of_chunk()[0] >> 9 & 1 == 1
    }

    /// Returns how many bytes the elements of a chunk have.
    pub fn chunk_bytes(&self) -> Result<u64, Error> {
        Ok(self.shape()?.len().saturating_mul(self.element()?.size() as u64))
    }

    /// Returns the shape of a chunk.
    pub fn shape(&self) -> Result<Shape, Error> {
        let rank = self.of_chunk()[1] as usize;
        let extents = self.of_chunk()[2..].chunks_exact(2).take(rank);
        Shape::new(&extents.map(|halves| u64::from(halves[1]) << 32 | u64::from(halves[0])).collect::<Vec<_>>())
    }

    /// Returns the options for chunks of this type.
    pub fn compress_options(&self, element: Option<ElementType>) -> Result<CompressOptions, Error> {
        let mode = self.values[1];
        let bound = u8::try_from(mode).ok().and_then(|code| Bound::from_code(code, self.number(2)));
        let bound = bound.ok_or_else(|| Error::InvalidArgument(format!("kind of bound {mode} is unknown")))?;
        if let Some(element) = element {
            bound.validate(element)?;
        }
        let is_exact =
            matches!(bound, Bound::Abs(error) if error < 1.0 && element.is_some_and(ElementType::is_integer));
        let bound = if is_exact { Bound::Lossless } else { bound };
        let fill = match self.values[4] {
            0 => Fill::Auto,
            1 => Fill::None,
            ONE_FILL..=MOST_FILLS => Fill::of(&self.fills())?,
            other => return Err(Error::InvalidArgument(format!("fill value {other} is unknown"))),
        };
        let options = CompressOptions::new(bound).with_fill(fill).with_threads(1).with_backend(Backend::Cpu);
        let options = options.with_advanced(Digits(self.values[8]).advanced()?);
        let options = match self.values[7] & !(ONCE - 1) {
            0 => options.with_rewritable(true),
            ONCE => options,
            other => return Err(Error::InvalidArgument(format!("{other} in number 7 of the parameters is unknown"))),
        };
        match self.values[7] & (ONCE - 1) {
            0 => Ok(options),
            1 => Ok(options.with_effort(Effort::Fast)),
            2 => Ok(options.with_effort(Effort::Balanced)),
            3 => Ok(options.with_effort(Effort::Best)),
            other => Err(Error::InvalidArgument(format!("effort {other} is unknown"))),
        }
    }

    /// Returns the fill values that users gave.
    fn fills(&self) -> Vec<f64> {
        let others = (USER..user_count(&self.values)).step_by(2);
        std::iter::once(5).chain(others).map(|at| self.number(at)).collect()
    }

    /// Returns the numbers that `set_local` appended.
    fn of_chunk(&self) -> &[u32] {
        &self.values[user_count(&self.values)..]
    }

    /// Returns the binary64 whose halves start at number `at`.
    fn number(&self, at: usize) -> f64 {
        f64::from_bits(u64::from(self.values[at + 1]) << 32 | u64::from(self.values[at]))
    }
}

/// Returns number 7 for an effort.
pub fn effort_word(effort: Option<Effort>) -> u32 {
    match effort {
        Some(Effort::Fast) => 1,
        Some(Effort::Balanced) => 2,
        Some(Effort::Best) => 3,
        _ => 0,
    }
}

/// Number 8: advanced options as hexadecimal digits, each 0 for the default. The first, the least significant one, is
/// the coder (1 auto, 2 numbers, 3 LZSS, 4 LZSS and Huffman). The others are the level of LZSS, the bytes of its
/// symbols, and the index (1 none).
#[derive(Clone, Copy)]
struct Digits(u32);

/// The coders of the first digit.
const CODERS: [Coder; 4] = [Coder::Auto, Coder::Numbers, Coder::Lzss, Coder::LzssHuffman];

impl Digits {
    /// Returns the number for these options.
    fn of(advanced: Advanced) -> Self {
        let coder = CODERS.iter().position(|&coder| Some(coder) == advanced.coder).map_or(0, |place| place + 1);
        let symbol = advanced.symbol.map_or(0, SymbolWidth::bytes);
        let level = u32::from(advanced.level.unwrap_or(0));
        let index = u32::from(advanced.index == IndexKind::None);
        Self(coder as u32 | level << 4 | (symbol as u32) << 8 | index << 12)
    }

    /// Returns the options for this number.
    fn advanced(self) -> Result<Advanced, Error> {
        let digits: [u32; 4] = std::array::from_fn(|place| self.0 >> (4 * place) & 15);
        let unknown = || Error::InvalidArgument(format!("the advanced options {:#x} are unknown", self.0));
        let mut advanced = Advanced::default();
        advanced.coder = match digits[0] {
            0 => None,
            coder => Some(*CODERS.get(coder as usize - 1).ok_or_else(unknown)?),
        };
        advanced.level = match digits[1] {
            0 => None,
            level @ 1..=9 => Some(level as u8),
            _ => return Err(unknown()),
        };
        advanced.symbol = match digits[2] {
            0 => None,
            bytes => Some(SymbolWidth::from_bytes(bytes as usize).ok_or_else(unknown)?),
        };
        advanced.index = match digits[3] {
            0 => IndexKind::Symbol,
            1 => IndexKind::None,
            _ => return Err(unknown()),
        };
        if self.0 >> 16 == 0 { Ok(advanced) } else { Err(unknown()) }
    }
}

/// Returns the number that stands for these options among the parameters of the filter.
pub fn advanced_number(advanced: Advanced) -> u32 {
    Digits::of(advanced).0
}

/// Returns how many numbers users give, from the first nine.
fn user_count(values: &[u32]) -> usize {
    USER + 2 * (values[4].clamp(ONE_FILL, MOST_FILLS) - ONE_FILL) as usize
}

/// Returns what users give for fill values: the numbers 4 to 6, and those that follow number 8.
pub fn fill_words(fills: &[f64]) -> ([u32; 3], Vec<u32>) {
    let halves = |value: &f64| [value.to_bits() as u32, (value.to_bits() >> 32) as u32];
    match fills {
        [] => ([1, 0, 0], Vec::new()),
        [first, others @ ..] => {
            let [low, high] = halves(first);
            ([ONE_FILL + others.len() as u32, low, high], others.iter().flat_map(halves).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advanced_options_come_back_from_their_number() {
        for text in ["", "coder=lzss+huffman,level=9", "index=none", "coder=auto,symbol=8"] {
            let advanced: Advanced = text.parse().unwrap();
            assert_eq!(Digits::of(advanced).advanced().unwrap(), advanced, "{text}");
        }
        assert_eq!(Digits::of("coder=numbers,level=3,symbol=4,index=none".parse().unwrap()).0, 0x1432);
        for unknown in [5, 10 << 4, 3 << 8, 2 << 12, 1 << 16] {
            assert!(Digits(unknown).advanced().is_err(), "{unknown:#x}");
        }
    }
}
