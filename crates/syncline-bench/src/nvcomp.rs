//! Measures nvCOMP's batched codecs for comparison, if its library is installed. Loads version 6 (PyPI
//! `nvidia-libnvcomp-cu13`) at run time.
//!
//! All of its option structs have 64 bytes. They are declared here as the bytes of the defaults in nvCOMP's headers,
//! with the type of the symbols.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use libloading::Library;
use syncline_cuda::cudarc::driver::{CudaSlice, CudaStream, CudaView, DevicePtr, DevicePtrMut};
use syncline_cuda::error::{CudaError, DriverContext};
use syncline_cuda::timing::{self, Runs, Times};

/// File names of the library.
const LIBRARIES: [&str; 2] = ["libnvcomp.so.6", "libnvcomp.so"];
/// The major version of the interface that is declared here.
const MAJOR: u32 = 6;
/// Bytes of a chunk as nvCOMP's documentation recommends, for codecs that do not specify another size.
const CHUNK: usize = 64 << 10;
/// An alignment in bytes that is sufficient for all codecs.
const ALIGNMENT: usize = 256;

/// `nvcompType_t` of unsigned integers of 1, 2, 4 and 8 bytes.
const TYPES: [u32; 4] = [1, 3, 5, 7];
/// The type that makes nvCOMP detect the type from the stream.
const TYPE_BITS: u32 = 0xFF;

/// An option struct of 64 bytes, passed by value.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Options([u32; 16]);

type Pointers = *const *const c_void;

type TempSize = unsafe extern "C" fn(usize, usize, Options, *mut usize, usize, *mut c_void) -> c_int;
type MaxOutput = unsafe extern "C" fn(usize, Options, *mut usize) -> c_int;
#[rustfmt::skip]
type Compress = unsafe extern "C" fn(
    Pointers, *const usize, usize, usize, *mut c_void, usize, Pointers, *mut usize, Options, *mut c_int, *mut c_void,
) -> c_int;
#[rustfmt::skip]
type Decompress = unsafe extern "C" fn(
    Pointers, *const usize, *const usize, *mut usize, usize, *mut c_void, usize, Pointers, Options, *mut c_int,
        *mut c_void,
) -> c_int;

/// A loaded nvCOMP library.
pub struct Nvcomp {
    library: Library,
}

/// A codec of nvCOMP with its options.
pub struct Codec {
    /// Name of the codec in tables.
    pub name: &'static str,
    /// The codec's part of function names.
    symbol: &'static str,
    chunk: usize,
    compress: Options,
    decompress: Options,
}

/// Returns options whose first words are `words`, followed by zeros.
fn options(words: &[u32]) -> Options {
    let mut all = [0; 16];
    all[..words.len()].copy_from_slice(words);
    Options(all)
}

/// Returns the type of symbols of 1, 2, 4 or 8 bytes, and that of bytes for other sizes.
fn type_of(symbol_bytes: usize) -> u32 {
    match symbol_bytes {
        2 | 4 | 8 => TYPES[symbol_bytes.ilog2() as usize],
        _ => TYPES[0],
    }
}

impl Codec {
    /// Returns a codec with default options and chunks of 64 KiB.
    const fn plain(name: &'static str, symbol: &'static str) -> Self {
        Self { name, symbol, chunk: CHUNK, compress: Options([0; 16]), decompress: Options([0; 16]) }
    }

    /// Returns the codec "cascaded" for symbols of `symbol_bytes` bytes.
    fn cascaded(symbol_bytes: usize) -> Self {
        // Asymmetric mode, bit packing, all fine-grained encodings, level 3. The fields are type and mode, followed by
        // 64-bit flags.
        let words = [type_of(symbol_bytes), 1, 1, 0, 0, 0, 7, 0, 3];
        // The options after the common ones start at a multiple of 8 bytes.
        Self {
            compress: options(&words),
            decompress: options(&[0, 0, TYPE_BITS]),
            ..Self::plain("Cascaded", "Cascaded")
        }
    }

    /// Returns all codecs, for symbols of `symbol_bytes` bytes.
    pub fn all(symbol_bytes: usize) -> [Self; 9] {
        let symbols = type_of(symbol_bytes);
        // LZ4 has no symbols of 8 bytes.
        let of_lz4 = type_of(symbol_bytes.min(4));
        let bitcomp =
            |name, algorithm| Self { compress: options(&[algorithm, symbols]), ..Self::plain(name, "Bitcomp") };
        let ans = |name, chunk| Self { chunk, decompress: options(&[0, TYPE_BITS]), ..Self::plain(name, "ANS") };
        [
            ans("ANS", CHUNK),
            ans("ANS, 256 KiB", 4 * CHUNK),
            bitcomp("Bitcomp", 0),
            bitcomp("Bitcomp, sparse", 1),
            Self::cascaded(symbol_bytes),
            Self { compress: options(&[of_lz4]), decompress: options(&[0, 0, of_lz4]), ..Self::plain("LZ4", "LZ4") },
            Self::plain("Snappy", "Snappy"),
            Self::plain("Zstd", "Zstd"),
            Self::plain("GDeflate", "Gdeflate"),
        ]
    }
}

/// Returns an error unless `status` is success; `what` names the operation.
fn ok(status: c_int, what: &str) -> syncline_cuda::Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(CudaError::invalid(format!("nvCOMP: {what}: status {status}"))),
    }
}

impl Nvcomp {
    /// Loads the library from a file, from a folder that contains it, or, without a path, from where the loader finds
    /// it.
    ///
    /// # Errors
    /// The library does not exist or has another version.
    pub fn load(path: Option<&Path>) -> Result<Self> {
        let candidates: Vec<PathBuf> = match path {
            Some(folder) if folder.is_dir() => LIBRARIES.iter().map(|name| folder.join(name)).collect(),
            Some(file) => vec![file.to_owned()],
            None => LIBRARIES.iter().map(PathBuf::from).collect(),
        };
        // SAFETY: loading runs the initializers of a library that the user has named or installed.
        let found = candidates.iter().find_map(|candidate| unsafe { Library::new(candidate) }.ok());
        let Some(library) = found else {
            bail!("no nvCOMP: `pip install nvidia-libnvcomp-cu13` and name the folder of libnvcomp.so.6 with --nvcomp");
        };
        let nvcomp = Self { library };
        let version = nvcomp.version()?;
        ensure!(version / 1000 == MAJOR, "nvCOMP {} is not version {MAJOR}", version / 1000);
        Ok(nvcomp)
    }

    /// Loads the library as [`Self::load`] does. If no path is given and the library is not installed, prints a message
    /// to standard error and returns `None`.
    ///
    /// # Errors
    /// The named library does not exist or has another version.
    pub fn find(path: Option<&Path>) -> Result<Option<Self>> {
        match Self::load(path) {
            Err(error) if path.is_none() => {
                eprintln!("left out: {error:#}");
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    /// Returns the library's version, 1000 times the major version plus the rest.
    fn version(&self) -> Result<u32> {
        let mut properties = [0_u32; 2];
        // SAFETY: the function has the type that nvcomp.h declares; it writes two 32-bit numbers.
        let status = unsafe {
            let get = self.library.get::<unsafe extern "C" fn(*mut u32) -> c_int>(b"nvcompGetProperties\0")?;
            get(properties.as_mut_ptr())
        };
        ok(status, "asking for its version")?;
        Ok(properties[0])
    }

    /// Returns the function `nvcompBatched<codec><name>`.
    ///
    /// # Safety
    /// `F` is the type of the function.
    unsafe fn function<F: Copy>(&self, codec: &Codec, name: &str) -> Result<F> {
        let symbol = format!("nvcompBatched{}{name}\0", codec.symbol);
        // SAFETY: the caller guarantees the type; the pointer is used only while the library is loaded.
        let found = unsafe { self.library.get::<F>(symbol.as_bytes()) };
        found.map(|function| *function).with_context(|| format!("nvCOMP has no {}", symbol.trim_end_matches('\0')))
    }
}

/// Addresses and sizes of chunks in a buffer, in device memory.
struct Chunks {
    buffer: CudaSlice<u8>,
    pointers: CudaSlice<u64>,
    sizes: CudaSlice<usize>,
}

impl Chunks {
    /// Lists chunks of these sizes in a buffer, one every `stride` bytes.
    fn new(stream: &Arc<CudaStream>, count: usize, stride: usize, sizes: &[usize]) -> Result<Self> {
        let buffer = stream.alloc_zeros::<u8>(count * stride).doing("allocating")?;
        let start = buffer.device_ptr(stream).0;
        let pointers: Vec<u64> = (0..count).map(|i| start + (i * stride) as u64).collect();
        Ok(Self {
            buffer,
            pointers: stream.clone_htod(&pointers).doing("uploading places")?,
            sizes: stream.clone_htod(sizes).doing("uploading sizes")?,
        })
    }
}

/// The measurements of a codec.
pub struct Measured {
    /// Bytes of all compressed chunks.
    pub bytes: u64,
    /// Times of compression.
    pub compress: Times,
    /// Times of decompression.
    pub decompress: Times,
    /// The decompressed bytes.
    pub back: Vec<u8>,
}

impl Nvcomp {
    /// Times a codec on bytes in device memory.
    ///
    /// # Errors
    /// A call fails.
    pub fn measure(
        &self,
        codec: &Codec,
        input: &CudaView<'_, u8>,
        stream: &Arc<CudaStream>,
        runs: Runs,
    ) -> Result<Measured> {
        measure(self, codec, input, stream, runs).with_context(|| format!("nvCOMP {}", codec.name))
    }
}

fn measure(
    nvcomp: &Nvcomp,
    codec: &Codec,
    input: &CudaView<'_, u8>,
    stream: &Arc<CudaStream>,
    runs: Runs,
) -> Result<Measured> {
    // SAFETY: the function types are those of nvCOMP's headers. They are the same for all of these codecs except for
    // the options, which always have 64 bytes.
    let (compress_temp, most, compress, decompress_temp, decompress) = unsafe {
        (
            nvcomp.function::<TempSize>(codec, "CompressGetTempSize")?,
            nvcomp.function::<MaxOutput>(codec, "CompressGetMaxOutputChunkSize")?,
            nvcomp.function::<Compress>(codec, "CompressAsync")?,
            nvcomp.function::<TempSize>(codec, "DecompressGetTempSize")?,
            nvcomp.function::<Decompress>(codec, "DecompressAsync")?,
        )
    };
    let queue: *mut c_void = stream.cu_stream().cast();
    let bytes = input.len();
    let chunk = codec.chunk;
    let count = bytes.div_ceil(chunk);
    let sizes: Vec<usize> = (0..count).map(|i| chunk.min(bytes - i * chunk)).collect();
    let (mut temp, mut decode_temp, mut stride) = (0, 0, 0);
    // SAFETY: each function writes one number to a valid place.
    unsafe {
        ok(compress_temp(count, chunk, codec.compress, &mut temp, bytes, queue), "temporary size")?;
        ok(decompress_temp(count, chunk, codec.decompress, &mut decode_temp, bytes, queue), "temporary size")?;
        ok(most(chunk, codec.compress, &mut stride), "largest chunk")?;
    }
    let mut plain = Chunks::new(stream, count, chunk, &sizes)?;
    stream.memcpy_dtod(input, &mut plain.buffer.slice_mut(..bytes)).doing("filling")?;
    let mut packed = Chunks::new(stream, count, stride.next_multiple_of(ALIGNMENT), &sizes)?;
    let mut back = Chunks::new(stream, count, chunk, &sizes)?;
    let mut statuses = stream.alloc_zeros::<c_int>(count).doing("allocating")?;
    let mut scratch = stream.alloc_zeros::<u8>(temp.max(decode_temp).max(1)).doing("allocating")?;
    let scratch_at = scratch.device_ptr_mut(stream).0 as *mut c_void;
    let at = |slice: &CudaSlice<u64>| slice.device_ptr(stream).0 as Pointers;
    let size_at = |slice: &CudaSlice<usize>| slice.device_ptr(stream).0 as *const usize;

    let (packed_sizes, status) =
        (packed.sizes.device_ptr_mut(stream).0 as *mut usize, statuses.device_ptr_mut(stream).0 as *mut c_int);
    let compression = timing::seconds(stream, runs, || {
        // SAFETY: there are `count` addresses and sizes of chunks, with room for the largest compressed chunk, and as
        // much scratch memory as requested. All of them live until the stream is synchronized by `timing::seconds`.
        let result = unsafe {
            compress(
                at(&plain.pointers),
                size_at(&plain.sizes),
                chunk,
                count,
                scratch_at,
                temp,
                at(&packed.pointers),
                packed_sizes,
                codec.compress,
                status,
                queue,
            )
        };
        ok(result, "compressing")
    })?;
    check_statuses(stream, &statuses)?;
    let packed_bytes: usize = stream.clone_dtoh(&packed.sizes).doing("reading sizes")?.iter().sum();

    // Missing writes are detected.
    stream.memcpy_htod(&vec![0xA5; count * chunk], &mut back.buffer).doing("filling")?;
    let mut found = stream.alloc_zeros::<usize>(count).doing("allocating")?;
    let (found_at, status) =
        (found.device_ptr_mut(stream).0 as *mut usize, statuses.device_ptr_mut(stream).0 as *mut c_int);
    let decompression = timing::seconds(stream, runs, || {
        // SAFETY: as for compression; each output chunk has as many bytes as its size states.
        let result = unsafe {
            decompress(
                at(&packed.pointers),
                packed_sizes,
                size_at(&back.sizes),
                found_at,
                count,
                scratch_at,
                decode_temp,
                at(&back.pointers),
                codec.decompress,
                status,
                queue,
            )
        };
        ok(result, "decompressing")
    })?;
    check_statuses(stream, &statuses)?;
    let back = stream.clone_dtoh(&back.buffer.slice(..bytes)).doing("reading back")?;
    Ok(Measured { bytes: packed_bytes as u64, compress: compression, decompress: decompression, back })
}

fn check_statuses(stream: &Arc<CudaStream>, statuses: &CudaSlice<c_int>) -> Result<()> {
    let statuses = stream.clone_dtoh(statuses).doing("reading statuses")?;
    match statuses.iter().find(|&&status| status != 0) {
        Some(status) => bail!("a chunk has status {status}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_laid_out_as_in_the_headers() {
        assert_eq!((size_of::<Options>(), align_of::<Options>()), (64, 8));
        let [ans, large, bitcomp, sparse, cascaded, ..] = Codec::all(2);
        assert_eq!((ans.chunk, large.chunk), (64 << 10, 256 << 10));
        assert_eq!(ans.decompress.0[1], 0xFF);
        assert_eq!((bitcomp.compress.0[0], sparse.compress.0[0], sparse.compress.0[1]), (0, 1, 3));
        // Type and mode are first, then flags at bytes 8, 16 and 24, and the level at byte 32.
        assert_eq!(cascaded.compress.0[..9], [3, 1, 1, 0, 0, 0, 7, 0, 3]);
        assert_eq!(cascaded.decompress.0[..4], [0, 0, 0xFF, 0]);
        let [_, _, _, _, wide, lz4, snappy, zstd, gdeflate] = Codec::all(4);
        assert_eq!([wide.name, lz4.name, zstd.name, gdeflate.name], ["Cascaded", "LZ4", "Zstd", "GDeflate"]);
        // LZ4 has no symbols of 8 bytes.
        let [of_lz4, of_bytes] = [8, 1].map(|bytes| Codec::all(bytes)[5].compress.0[0]);
        assert_eq!((of_lz4, of_bytes), (5, 1));
        assert_eq!((lz4.compress.0[0], lz4.compress.0[1], &lz4.decompress.0[..4]), (5, 0, &[0, 0, 5, 0][..]));
        assert!(snappy.compress.0.iter().chain(&snappy.decompress.0).all(|&word| word == 0));
        assert_eq!(([1, 2, 4, 8].map(type_of), wide.compress.0[0]), ([1, 3, 5, 7], 5));
    }

    #[test]
    fn no_library_is_one_line() {
        let error = Nvcomp::load(Some(Path::new("/no/such/folder/libnvcomp.so.6"))).err().unwrap().to_string();
        assert!(error.contains("--nvcomp") && error.lines().count() == 1, "{error}");
    }
}
