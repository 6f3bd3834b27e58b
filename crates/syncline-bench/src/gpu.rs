//! A GPU to measure on.

use std::sync::Arc;

use anyhow::Result;
use syncline_cuda::cudarc::driver::CudaStream;
use syncline_cuda::device::Device;
use syncline_cuda::timing::{self, Runs};

use crate::check::Check;

/// Bytes of the copy that everything is compared with.
const COPY_BYTES: usize = 512 << 20;

/// GPU 0 with its stream, what compares bytes on it, and the bytes of payload a second of a device-to-device copy.
pub struct Opened {
    /// The GPU.
    pub device: Device,
    /// Its default stream.
    pub stream: Arc<CudaStream>,
    /// What compares bytes on it.
    pub check: Check,
    /// Bytes of payload a second of a copy, timed by the runs asked for.
    pub copy: f64,
}

impl Opened {
    /// Opens GPU 0 and measures its copy.
    ///
    /// # Errors
    /// There is no GPU, or it cannot be used.
    pub fn new(runs: Runs) -> Result<Self> {
        let device = Device::open(0)?;
        let stream = device.context().default_stream();
        let copy = timing::copy_rate(&stream, COPY_BYTES, runs)?;
        let check = Check::new(&device, stream.clone())?;
        Ok(Self { device, stream, check, copy })
    }
}
