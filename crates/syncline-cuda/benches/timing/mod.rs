//! Shared by the benches of the device: opening the GPU, and timing.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use syncline_cuda::HEADERS;
use syncline_cuda::cudarc;
use syncline_cuda::device::Device;
use syncline_cuda::error::Result;
pub use syncline_cuda::timing::Runs;

/// Bytes of a large input, well above the size of the L2 cache.
pub const LARGE: usize = 512 << 20;
/// Bytes of a small input.
#[allow(dead_code, reason = "not every bench has small inputs")]
pub const SMALL: usize = 10 << 20;

/// Opens GPU 0. Without a GPU, returns `None` and prints a line, or returns an error if a GPU is required.
pub fn open() -> Result<Option<Device>> {
    match Device::open(0, &HEADERS) {
        Ok(device) => {
            println!("{}", device.info());
            Ok(Some(device))
        }
        Err(error) if std::env::var_os("SYNCLINE_REQUIRE_CUDA").is_some_and(|value| value == "1") => Err(error),
        Err(error) => {
            println!("skipped: no CUDA device ({error})");
            Ok(None)
        }
    }
}

/// Returns the median and the shortest seconds of `work` on the stream.
pub fn seconds(stream: &Arc<CudaStream>, runs: Runs, work: impl FnMut() -> Result<()>) -> Result<(f64, f64)> {
    syncline_cuda::timing::seconds(stream, runs, work).map(|times| (times.median(), times.shortest()))
}

/// Measures and prints a device-to-device copy of [`LARGE`] bytes. Returns its throughput C in bytes per second,
/// counting each byte once.
pub fn copy_rate(stream: &Arc<CudaStream>, runs: Runs) -> Result<f64> {
    let copy = syncline_cuda::timing::copy_rate(stream, LARGE, runs)?;
    println!("device copy of {} MiB: {:.0} GB/s of payload (C)", LARGE >> 20, copy / 1e9);
    Ok(copy)
}
