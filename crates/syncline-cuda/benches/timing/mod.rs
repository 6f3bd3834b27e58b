//! What every bench of the device starts with and times with.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUevent_flags;
use syncline_cuda::cudarc;
use syncline_cuda::device::Device;
use syncline_cuda::error::{DriverContext, Result};

/// Bytes of a large input, well above the second-level cache.
pub const LARGE: usize = 512 << 20;
/// Bytes of a small input.
#[allow(dead_code, reason = "not every bench has small inputs")]
pub const SMALL: usize = 10 << 20;

/// Runs that are not counted, and runs that are.
#[derive(Clone, Copy)]
pub struct Runs {
    pub warm_up: usize,
    pub counted: usize,
}

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
pub fn seconds(stream: &Arc<CudaStream>, runs: Runs, mut work: impl FnMut() -> Result<()>) -> Result<(f64, f64)> {
    let event = || stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).doing("recording an event");
    let mut times = Vec::new();
    for run in 0..runs.warm_up + runs.counted {
        let start = event()?;
        work()?;
        let end = event()?;
        let milliseconds = start.elapsed_ms(&end).doing("reading an event")?;
        if run >= runs.warm_up {
            times.push(f64::from(milliseconds) / 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok((times[runs.counted / 2], times[0]))
}

/// Bytes of payload a second of a device-to-device copy of [`LARGE`], printed as C.
pub fn copy_rate(stream: &Arc<CudaStream>, runs: Runs) -> Result<f64> {
    let from = stream.alloc_zeros::<u8>(LARGE).doing("allocating")?;
    let mut to = stream.alloc_zeros::<u8>(LARGE).doing("allocating")?;
    let (median, _) = seconds(stream, runs, || stream.memcpy_dtod(&from, &mut to).doing("copying"))?;
    let copy = LARGE as f64 / median;
    println!("device copy of {} MiB: {:.0} GB/s of payload (C)", LARGE >> 20, copy / 1e9);
    Ok(copy)
}
