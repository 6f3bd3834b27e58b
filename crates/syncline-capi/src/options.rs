//! Options of compression and decompression.

#![allow(unsafe_code, reason = "exported C functions and structs of the caller")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use syncline::{Backend, Bound, CompressOptions, CudaDevices, DecompressOptions, Effort, Fill, MAX_FILLS};

use crate::status::{Failure, guard};
use crate::structs::{Versioned, init, read};

/// Kinds of error bounds.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "numbers of the stream, named for C programs")]
pub enum syncline_bound_mode {
    /// Every element is restored bit for bit.
    SYNCLINE_LOSSLESS = 0,
    /// `bound_value` is the largest absolute error.
    SYNCLINE_ABS = 1,
    /// `bound_value` is the largest absolute error as a fraction of the value range of the array.
    SYNCLINE_REL = 2,
    /// `bound_value` is the smallest peak signal-to-noise ratio in dB.
    SYNCLINE_PSNR = 3,
    /// `bound_value` is the largest error of each value as a fraction of its magnitude.
    SYNCLINE_PW_REL = 4,
}

/// How fill values (missing data) are found. They are restored bit for bit and do not extend the value range.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "numbers that C programs name")]
pub enum syncline_fill_mode {
    /// A fill value is detected if it occurs often and lies far from all other values.
    SYNCLINE_FILL_AUTO = 0,
    /// There is no fill value.
    SYNCLINE_FILL_NONE = 1,
    /// `fill_value` is the fill value.
    SYNCLINE_FILL_VALUE = 2,
    /// The first `fill_count` of `fill_values` are the fill values.
    SYNCLINE_FILL_VALUES = 3,
}

/// How much time compression may take for a smaller stream.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "numbers that C programs name")]
pub enum syncline_effort {
    /// `SYNCLINE_EFFORT_BALANCED`.
    SYNCLINE_EFFORT_DEFAULT = 0,
    /// The fastest.
    SYNCLINE_EFFORT_FAST = 1,
    /// Smaller streams.
    SYNCLINE_EFFORT_BALANCED = 2,
    /// The smallest streams.
    SYNCLINE_EFFORT_BEST = 3,
}

/// The largest number of fill values of an array.
pub const SYNCLINE_MAX_FILLS: usize = 4;
const _: () = assert!(SYNCLINE_MAX_FILLS == MAX_FILLS);

/// Value of `device`: the CPU.
pub const SYNCLINE_DEVICE_CPU: i32 = -1;

/// Value of `device`: the first NVIDIA GPU if it is expected to be faster, otherwise the CPU.
pub const SYNCLINE_DEVICE_AUTO: i32 = -2;

/// Is called with the number of processed and of all elements. A result other than 0 cancels the work. It may be called
/// from other threads than the caller's, from one at a time.
pub type syncline_progress = Option<unsafe extern "C" fn(user: *mut c_void, done: u64, total: u64) -> c_int>;

/// Options of compression. Initialize them with `syncline_init_compress_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct syncline_compress_options {
    /// Size of this struct in bytes.
    pub struct_size: usize,
    /// One of `enum syncline_bound_mode`. The default is `SYNCLINE_LOSSLESS`.
    pub bound_mode: u32,
    /// One of `enum syncline_fill_mode`. The default is `SYNCLINE_FILL_AUTO`.
    pub fill_mode: u32,
    /// The number of the bound; unused for `SYNCLINE_LOSSLESS`.
    pub bound_value: f64,
    /// The fill value for `SYNCLINE_FILL_VALUE`.
    pub fill_value: f64,
    /// Single choices that the effort stands for, such as "coder=lzss,level=9" (docs/ADVANCED.md); may be NULL.
    pub advanced: *const c_char,
    /// Number of threads; 0 is one per core.
    pub threads: u32,
    /// `SYNCLINE_DEVICE_AUTO` (the default), `SYNCLINE_DEVICE_CPU`, or the number of an NVIDIA GPU.
    pub device: i32,
    /// Largest number of bytes of host memory for the work, input and output excluded; 0 is no limit.
    pub memory_limit: u64,
    /// Is called while the work proceeds; may be NULL.
    pub progress: syncline_progress,
    /// First argument of `progress`.
    pub progress_user: *mut c_void,
    /// One of `enum syncline_effort`. The default is `SYNCLINE_EFFORT_DEFAULT`.
    pub effort: u32,
    /// Number of fill values for `SYNCLINE_FILL_VALUES`, at most `SYNCLINE_MAX_FILLS`; 0 for the other modes.
    pub fill_count: u32,
    /// The fill values for `SYNCLINE_FILL_VALUES`.
    pub fill_values: [f64; SYNCLINE_MAX_FILLS],
    /// 1 if the array may be decompressed, changed in parts, and compressed again any number of times with the same
    /// `SYNCLINE_ABS` or `SYNCLINE_PW_REL`: each element then stays within the bound of the value that was last written
    /// to it, and streams of smooth fields are larger. The default is 0: each time may add an error of up to the bound.
    pub rewritable: u32,
    /// 0; for later versions.
    pub reserved: u32,
}

/// Options of decompression. Initialize them with `syncline_init_decompress_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct syncline_decompress_options {
    /// Size of this struct in bytes.
    pub struct_size: usize,
    /// Number of threads; 0 is one per core.
    pub threads: u32,
    /// `SYNCLINE_DEVICE_AUTO` (the default), `SYNCLINE_DEVICE_CPU`, or the number of an NVIDIA GPU.
    pub device: i32,
    /// Largest number of bytes of host memory for the work, input and output excluded; 0 is no limit.
    pub memory_limit: u64,
    /// Is called while the work proceeds; may be NULL.
    pub progress: syncline_progress,
    /// First argument of `progress`.
    pub progress_user: *mut c_void,
}

// SAFETY: C structs of plain numbers and pointers; the first field is the size, and every bit pattern is valid, because
// the function pointer is optional.
unsafe impl Versioned for syncline_compress_options {
    const NAME: &str = "syncline_compress_options";
    const FIRST_VERSION: usize = 72;

    fn defaults() -> Self {
        Self {
            struct_size: size_of::<Self>(),
            bound_mode: syncline_bound_mode::SYNCLINE_LOSSLESS as u32,
            fill_mode: syncline_fill_mode::SYNCLINE_FILL_AUTO as u32,
            bound_value: 0.0,
            fill_value: 0.0,
            advanced: std::ptr::null(),
            threads: 0,
            device: SYNCLINE_DEVICE_AUTO,
            memory_limit: 0,
            progress: None,
            progress_user: std::ptr::null_mut(),
            effort: syncline_effort::SYNCLINE_EFFORT_DEFAULT as u32,
            fill_count: 0,
            fill_values: [0.0; SYNCLINE_MAX_FILLS],
            rewritable: 0,
            reserved: 0,
        }
    }
}

// SAFETY: as for `syncline_compress_options`.
unsafe impl Versioned for syncline_decompress_options {
    const NAME: &str = "syncline_decompress_options";
    const FIRST_VERSION: usize = 40;

    fn defaults() -> Self {
        Self {
            struct_size: size_of::<Self>(),
            threads: 0,
            device: SYNCLINE_DEVICE_AUTO,
            memory_limit: 0,
            progress: None,
            progress_user: std::ptr::null_mut(),
        }
    }
}

/// Sets the default options: lossless, on the first GPU if it is expected to be faster, else on all cores of the CPU.
/// `struct_size` is `sizeof(struct syncline_compress_options)`. Returns `struct_size` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_init_compress_options(
    options: *mut syncline_compress_options,
    struct_size: usize,
) -> usize {
    // SAFETY: no context; the caller passes NULL or a struct of `struct_size` bytes.
    unsafe { guard(std::ptr::null_mut(), || init(options, struct_size)) }
}

/// Sets the default options: on the first GPU if it is expected to be faster, else on all cores of the CPU.
/// `struct_size` is `sizeof(struct syncline_decompress_options)`. Returns `struct_size` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_init_decompress_options(
    options: *mut syncline_decompress_options,
    struct_size: usize,
) -> usize {
    // SAFETY: no context; the caller passes NULL or a struct of `struct_size` bytes.
    unsafe { guard(std::ptr::null_mut(), || init(options, struct_size)) }
}

/// Returns the options of the library for those of the caller; NULL gives the defaults.
///
/// # Safety
/// `options` is null or points to a struct of as many bytes as its first field says, which may be read, as may the
/// string that its field `advanced` points to, unless that is null.
pub unsafe fn compress_options(options: *const syncline_compress_options) -> Result<CompressOptions, Failure> {
    // SAFETY: that of this function.
    let given = unsafe { read(options) }?;
    let bound = u8::try_from(given.bound_mode).ok().and_then(|code| Bound::from_code(code, given.bound_value));
    let bound = bound.ok_or_else(|| Failure::invalid(format!("bound_mode is {}, not 0 to 4", given.bound_mode)))?;
    let effort = match given.effort {
        0 => Effort::default(),
        1 => Effort::Fast,
        2 => Effort::Balanced,
        3 => Effort::Best,
        other => return Err(Failure::invalid(format!("effort is {other}, not 0 to 3"))),
    };
    let mut made = CompressOptions::new(bound)
        .with_fill(fill_of(&given)?)
        .with_effort(effort)
        .with_threads(given.threads as usize)
        .with_backend(backend(given.device)?);
    match (given.rewritable, given.reserved) {
        (0 | 1, 0) => made = made.with_rewritable(given.rewritable == 1),
        (0 | 1, other) => return Err(Failure::invalid(format!("reserved is {other}, not 0"))),
        (other, _) => return Err(Failure::invalid(format!("rewritable is {other}, not 0 or 1"))),
    }
    if !given.advanced.is_null() {
        // SAFETY: the caller passes a string that ends with a zero byte, or NULL.
        let text = unsafe { CStr::from_ptr(given.advanced) };
        made = made.with_advanced(text.to_string_lossy().parse()?);
    }
    if given.memory_limit > 0 {
        made = made.with_memory_limit(given.memory_limit);
    }
    if let Some(progress) = Progress::new(given.progress, given.progress_user) {
        made = made.with_progress(move |done, total| progress.call(done, total));
    }
    Ok(made)
}

/// Returns how fill values are found.
fn fill_of(given: &syncline_compress_options) -> Result<Fill, Failure> {
    let (mode, count) = (given.fill_mode, given.fill_count);
    match (mode, count) {
        (3, 1..) => match given.fill_values.get(..count as usize) {
            Some(values) => Ok(Fill::of(values)?),
            None => Err(Failure::invalid(format!("fill_count is {count}, not 1 to {SYNCLINE_MAX_FILLS}"))),
        },
        (3, 0) => Err(Failure::invalid("fill_count is 0, but fill_mode is SYNCLINE_FILL_VALUES")),
        (0..=2, 1..) => Err(Failure::invalid(format!("fill_count is {count}, but fill_mode is {mode}, not 3"))),
        (0, 0) => Ok(Fill::Auto),
        (1, 0) => Ok(Fill::None),
        (2, 0) => Ok(Fill::Value(given.fill_value)),
        (4.., _) => Err(Failure::invalid(format!("fill_mode is {mode}, not 0 to 3"))),
    }
}

/// Returns the options of the library for those of the caller; NULL gives the defaults.
///
/// # Safety
/// `options` is null or points to a struct of as many bytes as its first field says, which may be read.
pub unsafe fn decompress_options(options: *const syncline_decompress_options) -> Result<DecompressOptions, Failure> {
    // SAFETY: that of this function.
    let given = unsafe { read(options) }?;
    let mut made = DecompressOptions::new().with_threads(given.threads as usize).with_backend(backend(given.device)?);
    if given.memory_limit > 0 {
        made = made.with_memory_limit(given.memory_limit);
    }
    if let Some(progress) = Progress::new(given.progress, given.progress_user) {
        made = made.with_progress(move |done, total| progress.call(done, total));
    }
    Ok(made)
}

/// Returns the processor for a value of `device`.
fn backend(device: i32) -> Result<Backend, Failure> {
    match device {
        SYNCLINE_DEVICE_CPU => Ok(Backend::Cpu),
        SYNCLINE_DEVICE_AUTO => Ok(Backend::Auto),
        _ => usize::try_from(device)
            .map(|ordinal| Backend::Cuda(CudaDevices::One(ordinal)))
            .map_err(|_| Failure::invalid(format!("device is {device}, not -2, -1, or the number of a GPU"))),
    }
}

/// The callback of the caller and its first argument.
struct Progress {
    callback: unsafe extern "C" fn(*mut c_void, u64, u64) -> c_int,
    user: *mut c_void,
    /// Held during a call, so that the callback runs in one thread at a time.
    running: Mutex<()>,
}

// SAFETY: the header says that the callback may be called from other threads than the caller's.
unsafe impl Send for Progress {}
// SAFETY: `call` holds the lock, so that the callback runs in one thread at a time, as the header promises.
unsafe impl Sync for Progress {}

impl Progress {
    fn new(callback: syncline_progress, user: *mut c_void) -> Option<Self> {
        callback.map(|callback| Self { callback, user, running: Mutex::new(()) })
    }

    fn call(&self, done: u64, total: u64) -> ControlFlow<()> {
        let _running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller of the library provides the function for this argument, for as long as the call takes.
        let cancelled = unsafe { (self.callback)(self.user, done, total) } != 0;
        if cancelled { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
