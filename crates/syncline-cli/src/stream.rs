//! Streams as inputs of commands.

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use syncline::{
    Backend, CudaDevices, DecompressOptions, Error, Execution, Header, SparseBytes, StreamFile, compress_bound,
};

use crate::args::Resources;
use crate::input::{Input, Opened, shown};
use crate::message::{Failure, Outcome};
use crate::region::{shape_of, slabs};

/// Length of the bytes that tell a stream from other data.
const MAGIC_LEN: usize = 8;
/// Bytes of elements that are decoded at a time where the whole array is not needed at once.
const SLAB: u64 = 64 << 20;
/// The same if one layer of tiles is larger, and on a GPU, where each call allocates memory and streams.
const LARGE_SLAB: u64 = 1 << 30;

/// An open stream, and its name in messages.
pub struct OpenStream {
    /// The stream.
    pub file: StreamFile<Input>,
    /// File name, or stdin.
    pub name: String,
    /// Length of the stream in bytes.
    pub bytes: u64,
}

impl OpenStream {
    /// Opens a stream; `-` is stdin.
    pub fn open(path: &Path, memory_limit: Option<u64>) -> Outcome<Self> {
        let input = open_input(path, memory_limit)?;
        let name = input.to_string();
        let bytes = input.len()?;
        let file = StreamFile::open(input).map_err(|error| Failure::of(&name, error))?;
        Ok(Self { file, name, bytes })
    }

    /// Decodes a region slab by slab in the order of its elements. `take` receives the bytes of a slab, and the number
    /// of elements of the region that are done after it. Returns the processor that was used, which depends on the size
    /// of the region, not of a slab.
    pub fn for_each_slab(
        &self,
        region: &[Range<u64>],
        options: &DecompressOptions,
        mut take: impl FnMut(&[u8], u64) -> Outcome,
    ) -> Outcome<Execution> {
        self.for_each_part(region, options, |_, bytes, done| take(bytes, done))
    }

    /// Does what [`Self::for_each_slab`] does. `take` also receives the region of the slab.
    pub fn for_each_part(
        &self,
        region: &[Range<u64>],
        options: &DecompressOptions,
        mut take: impl FnMut(&[Range<u64>], &[u8], u64) -> Outcome,
    ) -> Outcome<Execution> {
        let execution = self.file.execution(region, options).map_err(|error| Failure::of(&self.name, error))?;
        let mut options = match (options.backend(), execution.on_gpu()) {
            (Backend::Auto, true) => options.clone().with_backend(Backend::Cuda(CudaDevices::One(0))),
            (_, true) => options.clone(),
            (_, false) => options.clone().with_backend(Backend::Cpu),
        };
        let size = self.file.header().element_type.size() as u64;
        let layer = self.file.layer_len(region).map_err(|error| Failure::of(&self.name, error))?;
        let slab = match execution.on_gpu() {
            true => LARGE_SLAB,
            false => layer.saturating_mul(size).clamp(SLAB, LARGE_SLAB),
        };
        let mut most = slab / size;
        if let Some(limit) = options.memory_limit() {
            let workspace = if execution.on_gpu() { 0 } else { self.file.memory_per_thread() };
            most = most.min(limit.saturating_sub(workspace) / 4 / size);
            // `take` may compare a slab with another of the same size.
            options = options.with_memory_limit(limit - most * size);
        }
        let mut done = 0;
        for slab in slabs(region, most.max(1)) {
            done += shape_of(&slab).len();
            let part = self.file.decompress_region(&slab, &options).map_err(|error| Failure::of(&self.name, error))?;
            take(&slab, part.bytes(), done)?;
        }
        Ok(execution)
    }
}

/// Opens the file of a stream, or reads all of a pipe.
pub fn open_input(path: &Path, memory_limit: Option<u64>) -> Outcome<Input> {
    match Opened::new(path)? {
        Opened::File(file) => Ok(Input::File(file, path.to_owned())),
        Opened::Pipe(pipe) => spooled(pipe, path, memory_limit),
    }
}

/// Reads all of a stream without positions, up to the length that its header permits. Other data are refused after
/// their first bytes.
fn spooled(mut pipe: impl Read, path: &Path, memory_limit: Option<u64>) -> Outcome<Input> {
    let mut head = Vec::new();
    let mut read_to = |head: &mut Vec<u8>, length: usize| {
        let read = pipe.by_ref().take((length - head.len()) as u64).read_to_end(head);
        read.map(drop).map_err(|error| Failure::io(shown(path), &error))
    };
    read_to(&mut head, MAGIC_LEN)?;
    if let Err(error @ Error::NotSyncline(_)) = Header::parse(&head) {
        return Err(Failure::of(shown(path), error));
    }
    read_to(&mut head, SparseBytes::HEAD_BYTES)?;
    let header = Header::parse(&head).map_err(|error| Failure::of(shown(path), error))?;
    // With more chunks than this build writes, a stream can be longer, but hardly twice as long.
    let longest = compress_bound(header.element_type, header.shape).saturating_mul(2).saturating_add(1 << 20);
    Input::spooled(head.chain(pipe), path, memory_limit, longest)
}

/// Returns decompression options with the processor, threads, and memory of the command line.
pub fn decode_options(resources: Resources) -> DecompressOptions {
    let options = DecompressOptions::default().with_backend(resources.device).with_threads(resources.limits.threads);
    match resources.limits.memory_limit {
        Some(limit) => options.with_memory_limit(limit),
        None => options,
    }
}
