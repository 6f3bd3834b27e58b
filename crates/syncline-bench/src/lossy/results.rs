//! The results of the `lossy` bench.

use serde::Serialize;
use syncline_cuda::timing::Times;

/// A throughput, in 10^9 bytes of uncompressed elements per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rate {
    /// Throughput of the median run.
    pub median: f64,
    /// Throughput of the slowest run.
    pub slowest: f64,
    /// Throughput of the fastest run.
    pub best: f64,
    /// Duration of the median run in microseconds.
    pub microseconds: f64,
    /// Median throughput divided by that of a device copy in the same run; on a GPU only.
    pub share_of_copy: Option<f64>,
}

impl Rate {
    /// Computes the throughput for `bytes` bytes and these times. `copy` is the throughput of the device copy in bytes
    /// per second.
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

/// The results for a set with one bound on one device.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the set.
    pub set: String,
    /// Type of the elements.
    pub element: String,
    /// Extents, slowest axis first.
    pub shape: String,
    /// Bytes of the elements.
    pub bytes: u64,
    /// Name of the device.
    pub device: String,
    /// The bound relative to the range of values.
    pub relative: f64,
    /// The absolute bound that results.
    pub bound: f64,
    /// Bytes of the stream.
    pub stream_bytes: u64,
    /// Bytes of the elements divided by bytes of the stream.
    pub ratio: f64,
    /// Bits of the stream per element.
    pub bits: f64,
    /// Peak signal-to-noise ratio in dB, with the range of values as the peak; infinite if there is no error.
    pub psnr: f64,
    /// Largest error of all values divided by the bound.
    pub error_over_bound: f64,
    /// Compression between buffers in device memory, including the scan for the range of values.
    pub compress: Rate,
    /// Compression with a known bound: without the scan, and without the stream's header and table.
    pub compress_known: Option<Rate>,
    /// Compression between buffers in host memory, otherwise as `compress`.
    pub compress_copies: Option<Rate>,
    /// Decompression between buffers in device memory.
    pub decompress: Rate,
    /// Decompression between buffers in host memory.
    pub decompress_copies: Option<Rate>,
    /// Bytes of device memory that compression takes in addition to the array and the stream.
    pub compress_workspace: Option<u64>,
    /// Bytes of device memory that decompression takes in addition to the array and the stream.
    pub decompress_workspace: Option<u64>,
    /// Whether the stream was compared with the CPU's and equals it.
    pub compared_with_cpu: bool,
}

/// The durations of the steps of compression or decompression of a set.
#[derive(Clone, Debug, Serialize)]
pub struct Steps {
    /// Name of the set.
    pub set: String,
    /// Bytes of the set.
    pub bytes: u64,
    /// The bound relative to the range of values.
    pub relative: f64,
    /// Either `compress` or `decompress`.
    pub direction: &'static str,
    /// Name and duration in microseconds of each step, measured from the end of the previous one, including waits for
    /// the host.
    pub steps: Vec<(String, f64)>,
}

/// All results of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Results {
    /// One row for each set, bound and device.
    pub rows: Vec<Row>,
    /// Durations of steps.
    pub steps: Vec<Steps>,
}
