//! What every bench of the device starts with and times with.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use syncline_cuda::cudarc;
use syncline_cuda::device::Device;
use syncline_cuda::error::Result;
pub use syncline_cuda::timing::Runs;

/// Bytes of a large input, well above the second-level cache.
pub const LARGE: usize = 512 << 20;
/// Bytes of a small input.
#[allow(dead_code, reason = "not every bench has small inputs")]
pub const SMALL: usize = 10 << 20;

/// GPU 0, or nothing and a line that says so; an error if a GPU is required.
pub fn open() -> Result<Option<Device>> {
    match Device::open(0) {
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

/// Median seconds of `work` on the stream, and the shortest.
pub fn seconds(stream: &Arc<CudaStream>, runs: Runs, work: impl FnMut() -> Result<()>) -> Result<(f64, f64)> {
    syncline_cuda::timing::seconds(stream, runs, work).map(|times| (times.median(), times.shortest()))
}

/// Bytes of payload a second of a device-to-device copy of [`LARGE`], printed as C.
pub fn copy_rate(stream: &Arc<CudaStream>, runs: Runs) -> Result<f64> {
    let copy = syncline_cuda::timing::copy_rate(stream, LARGE, runs)?;
    println!("device copy of {} MiB: {:.0} GB/s of payload (C)", LARGE >> 20, copy / 1e9);
    Ok(copy)
}
