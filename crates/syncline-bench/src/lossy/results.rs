//! What was measured.

use serde::Serialize;
use syncline_cuda::timing::Times;

/// How fast something went, in 10^9 bytes of uncompressed elements a second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rate {
    /// Median run.
    pub median: f64,
    /// Slowest run.
    pub slowest: f64,
    /// Fastest run.
    pub best: f64,
    /// Microseconds of the median run.
    pub microseconds: f64,
    /// Median over the rate of a device copy in the same run; on a GPU only.
    pub share_of_copy: Option<f64>,
}

impl Rate {
    /// Of `bytes` bytes that took these times; `copy` is the copy's rate in bytes a second.
    pub fn new(bytes: u64, times: &Times, copy: Option<f64>) -> Self {
        let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
        let median = rate(times.median());
        Self {
            median,
            slowest: rate(times.longest()),
            best: rate(times.shortest()),
            microseconds: times.median() * 1e6,
            share_of_copy: copy.map(|copy| median * 1e9 / copy),
        }
    }
}

/// A set at one bound, in one place.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The set.
    pub set: String,
    /// Type of its elements.
    pub element: String,
    /// Extents, slowest first.
    pub shape: String,
    /// Bytes of its elements.
    pub bytes: u64,
    /// Where it ran.
    pub device: String,
    /// The bound as a share of the range of values.
    pub relative: f64,
    /// The absolute bound that it came to.
    pub bound: f64,
    /// Bytes of the stream.
    pub stream_bytes: u64,
    /// Bytes of elements over bytes of stream.
    pub ratio: f64,
    /// Bits of the stream for each element.
    pub bits: f64,
    /// Peak signal-to-noise ratio in dB, the peak being the range of values; infinite without an error.
    pub psnr: f64,
    /// Largest error over the bound, of all values.
    pub error_over_bound: f64,
    /// Compression, from memory of the device to memory of the device, the scan for the range included.
    pub compress: Rate,
    /// The same with a bound that is known: without the scan, and without the stream's header and table.
    pub compress_known: Option<Rate>,
    /// The same as `compress`, from memory of the host to memory of the host.
    pub compress_copies: Option<Rate>,
    /// Decompression.
    pub decompress: Rate,
    /// The same from memory of the host to memory of the host.
    pub decompress_copies: Option<Rate>,
    /// Bytes of device memory that compression takes beside the array and the stream.
    pub compress_workspace: Option<u64>,
    /// Bytes of device memory that decompression takes beside the array and the stream.
    pub decompress_workspace: Option<u64>,
    /// Whether the stream was compared with the CPU's (and found to be the same).
    pub compared_with_cpu: bool,
}

/// The steps of compression or decompression of a set.
#[derive(Clone, Debug, Serialize)]
pub struct Steps {
    /// The set.
    pub set: String,
    /// Its bytes.
    pub bytes: u64,
    /// The bound as a share of the range of values.
    pub relative: f64,
    /// `compress` or `decompress`.
    pub direction: &'static str,
    /// Name and microseconds of each step, from the end of the one before: waits for the host are part of it.
    pub steps: Vec<(String, f64)>,
}

/// Everything that was measured in a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Results {
    /// A row for each set, bound and place.
    pub rows: Vec<Row>,
    /// Steps.
    pub steps: Vec<Steps>,
}
