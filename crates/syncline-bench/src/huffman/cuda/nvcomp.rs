//! nvCOMP's batched codecs on the same symbols, if its library is there: loaded at run time, version 6 (PyPI `nvidia-libnvcomp-cu13`).
//!
//! Its option structs all have 64 bytes; they are written here as the bytes that its headers' defaults have, with the type of the symbols.

use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use libloading::Library;
use syncline_cuda::cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut};
use syncline_cuda::error::{CudaError, DriverContext};
use syncline_cuda::timing;

use super::{Code, Gpu, Input, POISON, Results, What, names};
use crate::huffman::{Set, Symbols};

/// Names that the library goes by.
const LIBRARIES: [&str; 2] = ["libnvcomp.so.6", "libnvcomp.so"];
/// The major version whose interface is declared here.
const MAJOR: u32 = 6;
/// Bytes of a chunk, but for the codecs that say otherwise: what nvCOMP's documentation recommends.
const CHUNK: usize = 64 << 10;
/// Alignment that every codec of it is content with.
const ALIGNMENT: usize = 256;

const TYPE_UCHAR: u32 = 1;
const TYPE_USHORT: u32 = 3;
/// No type: found out from the stream.
const TYPE_BITS: u32 = 0xFF;

/// An option struct, passed by value.
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
    Pointers, *const usize, *const usize, *mut usize, usize, *mut c_void, usize, Pointers, Options, *mut c_int, *mut c_void,
) -> c_int;

/// The library.
pub struct Nvcomp {
    library: Library,
}

/// A codec of it with options.
struct Codec {
    name: &'static str,
    /// Part of its functions' names.
    symbol: &'static str,
    chunk: usize,
    compress: Options,
    decompress: Options,
}

/// Options whose first words are these and the others 0.
fn options(words: &[u32]) -> Options {
    let mut all = [0; 16];
    all[..words.len()].copy_from_slice(words);
    Options(all)
}

/// The codecs for symbols of so many bytes.
fn codecs(symbol_bytes: usize) -> [Codec; 6] {
    let symbols = if symbol_bytes == 1 { TYPE_UCHAR } else { TYPE_USHORT };
    let bitcomp = |name, algorithm| Codec {
        name,
        symbol: "Bitcomp",
        chunk: CHUNK,
        compress: options(&[algorithm, symbols]),
        decompress: options(&[]),
    };
    let ans = |name, chunk| Codec {
        name,
        symbol: "ANS",
        chunk,
        compress: options(&[]),
        decompress: options(&[0, TYPE_BITS]),
    };
    // Asymmetric mode, bit packing, every fine-grained encoding, level 3; type, mode, then flags of 64 bits.
    let cascaded = [symbols, 1, 1, 0, 0, 0, 7, 0, 3];
    [
        ans("ANS", CHUNK),
        ans("ANS, 256 KiB", 4 * CHUNK),
        bitcomp("Bitcomp", 0),
        bitcomp("Bitcomp, sparse", 1),
        Codec {
            name: "Cascaded",
            symbol: "Cascaded",
            chunk: CHUNK,
            compress: options(&cascaded),
            // The common options start at a multiple of 8 bytes.
            decompress: options(&[0, 0, TYPE_BITS]),
        },
        Codec { name: "Zstd", symbol: "Zstd", chunk: CHUNK, compress: options(&[]), decompress: options(&[]) },
    ]
}

/// Fails if a call did.
fn ok(status: c_int, what: &str) -> syncline_cuda::Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(CudaError::invalid(format!("nvCOMP: {what}: status {status}"))),
    }
}

impl Nvcomp {
    /// Loads the library from a file, or a folder that has it, or wherever the loader finds it.
    ///
    /// # Errors
    /// It is not there, or another version.
    pub fn load(path: Option<&Path>) -> Result<Self> {
        let candidates: Vec<PathBuf> = match path {
            Some(folder) if folder.is_dir() => LIBRARIES.iter().map(|name| folder.join(name)).collect(),
            Some(file) => vec![file.to_owned()],
            None => LIBRARIES.iter().map(PathBuf::from).collect(),
        };
        // SAFETY: running the initialisers of the library that the user names, or installed.
        let found = candidates.iter().find_map(|candidate| unsafe { Library::new(candidate) }.ok());
        let Some(library) = found else {
            bail!("no nvCOMP: `pip install nvidia-libnvcomp-cu13` and name the folder of libnvcomp.so.6 with --nvcomp");
        };
        let nvcomp = Self { library };
        let version = nvcomp.version()?;
        ensure!(version / 1000 == MAJOR, "nvCOMP {} is not version {MAJOR}", version / 1000);
        Ok(nvcomp)
    }

    /// 1000 times the major version, and the rest.
    fn version(&self) -> Result<u32> {
        let mut properties = [0_u32; 2];
        // SAFETY: the function's type as nvcomp.h declares it; it writes two 32-bit numbers.
        let status = unsafe {
            let get = self.library.get::<unsafe extern "C" fn(*mut u32) -> c_int>(b"nvcompGetProperties\0")?;
            get(properties.as_mut_ptr())
        };
        ok(status, "asking for its version")?;
        Ok(properties[0])
    }

    /// A function `nvcompBatched<codec><name>`.
    ///
    /// # Safety
    /// `F` must be the function's type.
    unsafe fn function<F: Copy>(&self, codec: &Codec, name: &str) -> Result<F> {
        let symbol = format!("nvcompBatched{}{name}\0", codec.symbol);
        // SAFETY: the caller's promise; the copy is used only while the library is loaded.
        let found = unsafe { self.library.get::<F>(symbol.as_bytes()) };
        found.map(|function| *function).with_context(|| format!("nvCOMP has no {}", symbol.trim_end_matches('\0')))
    }
}

/// Places and sizes of chunks in a buffer, on the device.
struct Chunks {
    buffer: CudaSlice<u8>,
    pointers: CudaSlice<u64>,
    sizes: CudaSlice<usize>,
}

impl Chunks {
    /// Chunks of `size` bytes of a buffer, one every `stride`.
    fn new(stream: &std::sync::Arc<CudaStream>, count: usize, stride: usize, sizes: &[usize]) -> Result<Self> {
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

impl Gpu {
    /// Times nvCOMP's codecs on a set.
    ///
    /// # Errors
    /// A call fails, or other symbols come back.
    pub fn measure_nvcomp(&mut self, nvcomp: &Nvcomp, set: &Set, results: &mut Results) -> Result<()> {
        match &set.symbols {
            Symbols::Bytes(symbols) => self.measure_codecs(nvcomp, set, symbols, results),
            Symbols::Codes(symbols) => self.measure_codecs(nvcomp, set, symbols, results),
        }
        .with_context(|| format!("nvCOMP on {}", set.name))
    }

    fn measure_codecs<S: Code>(
        &mut self,
        nvcomp: &Nvcomp,
        set: &Set,
        symbols: &[S],
        results: &mut Results,
    ) -> Result<()> {
        let input = self.upload(set, symbols)?;
        for codec in codecs(size_of::<S>()) {
            self.measure_codec(nvcomp, &codec, &input, results).with_context(|| codec.name)?;
        }
        Ok(())
    }

    fn measure_codec<S: Code>(
        &mut self,
        nvcomp: &Nvcomp,
        codec: &Codec,
        input: &Input<S>,
        results: &mut Results,
    ) -> Result<()> {
        // SAFETY: the types are those of nvCOMP's headers, the same for each of these codecs but for the options, which have 64 bytes everywhere.
        let (compress_temp, most, compress, decompress_temp, decompress) = unsafe {
            (
                nvcomp.function::<TempSize>(codec, "CompressGetTempSize")?,
                nvcomp.function::<MaxOutput>(codec, "CompressGetMaxOutputChunkSize")?,
                nvcomp.function::<Compress>(codec, "CompressAsync")?,
                nvcomp.function::<TempSize>(codec, "DecompressGetTempSize")?,
                nvcomp.function::<Decompress>(codec, "DecompressAsync")?,
            )
        };
        let stream = self.stream.clone();
        let queue: *mut c_void = stream.cu_stream().cast();
        let bytes = input.bytes();
        let chunk = codec.chunk;
        let count = bytes.div_ceil(chunk);
        let sizes: Vec<usize> = (0..count).map(|i| chunk.min(bytes - i * chunk)).collect();
        let (mut temp, mut decode_temp, mut stride) = (0, 0, 0);
        // SAFETY: each writes one number.
        unsafe {
            ok(compress_temp(count, chunk, codec.compress, &mut temp, bytes, queue), "temporary size")?;
            ok(decompress_temp(count, chunk, codec.decompress, &mut decode_temp, bytes, queue), "temporary size")?;
            ok(most(chunk, codec.compress, &mut stride), "largest chunk")?;
        }
        let mut plain = Chunks::new(&stream, count, chunk, &sizes)?;
        stream.memcpy_dtod(&input.as_bytes(), &mut plain.buffer.slice_mut(..bytes)).doing("filling")?;
        let mut packed = Chunks::new(&stream, count, stride.next_multiple_of(ALIGNMENT), &sizes)?;
        let mut back = Chunks::new(&stream, count, chunk, &sizes)?;
        let mut statuses = stream.alloc_zeros::<c_int>(count).doing("allocating")?;
        let mut scratch = stream.alloc_zeros::<u8>(temp.max(decode_temp).max(1)).doing("allocating")?;
        let scratch_at = scratch.device_ptr_mut(&stream).0 as *mut c_void;
        let at = |slice: &CudaSlice<u64>| slice.device_ptr(&stream).0 as Pointers;
        let size_at = |slice: &CudaSlice<usize>| slice.device_ptr(&stream).0 as *const usize;

        let (packed_sizes, status) =
            (packed.sizes.device_ptr_mut(&stream).0 as *mut usize, statuses.device_ptr_mut(&stream).0 as *mut c_int);
        let times = timing::seconds(&stream, self.runs, || {
            // SAFETY: `count` places and sizes of chunks, with room for the largest; as much scratch memory as asked for; all live until the stream is done, which
            // `timing::seconds` waits for.
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
        self.check_statuses(&statuses)?;
        let packed_bytes: usize = stream.clone_dtoh(&packed.sizes).doing("reading sizes")?.iter().sum();
        let what = |direction| What {
            direction,
            method: format!("nvCOMP {}", codec.name),
            index: names::NVCOMP.to_owned(),
            free_groups: false,
            symbols: input.symbols.len(),
            stream_bytes: packed_bytes as u64,
        };
        results.rows.push(self.row(&input.set, bytes, what("encode"), &times));

        self.check.poison(&mut back.buffer.as_view_mut(), POISON)?;
        let mut found = stream.alloc_zeros::<usize>(count).doing("allocating")?;
        let (found_at, status) =
            (found.device_ptr_mut(&stream).0 as *mut usize, statuses.device_ptr_mut(&stream).0 as *mut c_int);
        let times = timing::seconds(&stream, self.runs, || {
            // SAFETY: as above; each output chunk has the room that its size says.
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
        self.check_statuses(&statuses)?;
        let differences = self.check.differences(&input.as_bytes(), &back.buffer.slice(..bytes))?;
        ensure!(differences == 0, "{differences} bytes differ from what was compressed");
        results.rows.push(self.row(&input.set, bytes, what("decode"), &times));
        Ok(())
    }

    fn check_statuses(&self, statuses: &CudaSlice<c_int>) -> Result<()> {
        let statuses = self.stream.clone_dtoh(statuses).doing("reading statuses")?;
        match statuses.iter().find(|&&status| status != 0) {
            Some(status) => bail!("nvCOMP: a chunk has status {status}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_laid_out_as_in_the_headers() {
        assert_eq!((size_of::<Options>(), align_of::<Options>()), (64, 8));
        let [ans, large, bitcomp, sparse, cascaded, _] = codecs(2);
        assert_eq!((ans.chunk, large.chunk), (64 << 10, 256 << 10));
        assert_eq!(ans.decompress.0[1], 0xFF);
        assert_eq!((bitcomp.compress.0[0], sparse.compress.0[0], sparse.compress.0[1]), (0, 1, 3));
        // Type and mode, then flags at bytes 8, 16 and 24, the level at 32.
        assert_eq!(cascaded.compress.0[..9], [3, 1, 1, 0, 0, 0, 7, 0, 3]);
        assert_eq!(cascaded.decompress.0[..4], [0, 0, 0xFF, 0]);
    }

    #[test]
    fn no_library_is_one_line() {
        let error = Nvcomp::load(Some(Path::new("/no/such/folder/libnvcomp.so.6"))).err().unwrap().to_string();
        assert!(error.contains("--nvcomp") && error.lines().count() == 1, "{error}");
    }
}
