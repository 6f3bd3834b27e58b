//! Poisoning and comparing buffers in device memory: launcher of `kernels/bench_check.cu`.

use std::sync::Arc;

use syncline_cuda::cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, PushKernelArg};
use syncline_cuda::device::{Device, Kernel, Source, Specialization};
use syncline_cuda::error::{CudaError, DriverContext, Result};

const SOURCE: Source = Source { name: "bench_check.cu", text: include_str!("../../../kernels/bench_check.cu") };
const THREADS: u32 = 512;
const BLOCKS: u32 = 2048;

/// Fills and compares bytes on one stream.
pub struct Check {
    fill: Kernel,
    compare: Kernel,
    stream: Arc<CudaStream>,
    differences: CudaSlice<u64>,
}

impl Check {
    /// Compiles the kernels, and makes sure that a difference would be found.
    ///
    /// # Errors
    /// Those of [`Device::kernel`]; [`CudaError::Driver`]; [`CudaError::InvalidArgument`] if the kernels do not work.
    pub fn new(device: &Device, stream: Arc<CudaStream>) -> Result<Self> {
        let specialization = Specialization { source: SOURCE, constants: Vec::new() };
        let kernel = |name| device.kernel(&specialization, name);
        let (fill, compare) = (kernel("bench_fill")?, kernel("bench_differences")?);
        let differences = stream.alloc_zeros(1).doing("allocating")?;
        let mut check = Self { fill, compare, stream, differences };
        check.try_out()?;
        Ok(check)
    }

    fn try_out(&mut self) -> Result<()> {
        let allocate = || self.stream.alloc_zeros::<u8>(3 << 20).doing("allocating");
        let (mut a, mut b) = (allocate()?, allocate()?);
        self.poison(&mut a.as_view_mut(), 0x5A)?;
        self.poison(&mut b.as_view_mut(), 0x5A)?;
        let alike = self.differences(&a.as_view(), &b.as_view())?;
        let last = b.len() - 1;
        self.poison(&mut b.slice_mut(last..), 0x5B)?;
        let found = self.differences(&a.as_view(), &b.as_view())?;
        if (alike, found) != (0, 1) {
            return Err(CudaError::invalid("the check of results does not work on this device"));
        }
        Ok(())
    }

    /// Sets every byte.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn poison(&self, to: &mut CudaViewMut<'_, u8>, value: u8) -> Result<()> {
        let bytes = to.len() as u64;
        let mut launch = self.stream.launch_builder(self.fill.function());
        launch.arg(to).arg(&bytes).arg(&value);
        // SAFETY: parameters (u8 *, u64, u8): writes the view's bytes.
        unsafe { launch.launch(Kernel::grid(BLOCKS, THREADS, 0)) }.doing("poisoning")?;
        Ok(())
    }

    /// How many bytes differ; those that only one has count, too.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn differences(&mut self, a: &CudaView<'_, u8>, b: &CudaView<'_, u8>) -> Result<u64> {
        let bytes = a.len().min(b.len()) as u64;
        self.stream.memset_zeros(&mut self.differences).doing("clearing a counter")?;
        if bytes > 0 {
            let mut launch = self.stream.launch_builder(self.compare.function());
            launch.arg(a).arg(b).arg(&bytes).arg(&mut self.differences);
            // SAFETY: parameters (const u8 *, const u8 *, u64, u64 *): reads bytes that both views have, adds to one counter.
            unsafe { launch.launch(Kernel::grid(BLOCKS, THREADS, 0)) }.doing("comparing")?;
        }
        let found = self.stream.clone_dtoh(&self.differences).doing("reading a counter")?[0];
        Ok(found + a.len().abs_diff(b.len()) as u64)
    }
}
