//! A GPU that is prepared for measurements.

use std::sync::Arc;

use anyhow::Result;
use syncline_cuda::HEADERS;
use syncline_cuda::cudarc::driver::CudaStream;
use syncline_cuda::device::Device;
use syncline_cuda::timing::{self, Runs};

use crate::check::Check;

/// Bytes of the device-to-device copy.
const COPY_BYTES: usize = 512 << 20;

/// GPU 0 with its stream and the measured throughput of a device-to-device copy.
pub struct Opened {
    /// The device.
    pub device: Device,
    /// Default stream of the device.
    pub stream: Arc<CudaStream>,
    /// Fills and compares buffers on the device.
    pub check: Check,
    /// Throughput of the copy in bytes per second, counting each byte once.
    pub copy: f64,
}

impl Opened {
    /// Opens GPU 0 and measures its copy with these numbers of runs.
    ///
    /// # Errors
    /// There is no GPU, or it cannot be used.
    pub fn new(runs: Runs) -> Result<Self> {
        let device = Device::open(0, &HEADERS)?;
        let stream = device.context().default_stream();
        let copy = timing::copy_rate(&stream, COPY_BYTES, runs)?;
        let check = Check::new(&device, stream.clone())?;
        Ok(Self { device, stream, check, copy })
    }
}
