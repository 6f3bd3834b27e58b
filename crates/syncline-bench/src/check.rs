//! Fills and compares buffers in device memory, and keeps the device busy: launchers of `kernels/bench_check.cu`.

#![allow(unsafe_code)]

use std::sync::Arc;

use syncline_cuda::cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DeviceRepr};
use syncline_cuda::device::{Device, Kernel, Source, Specialization};
use syncline_cuda::error::{CudaError, DriverContext, Result};

const SOURCE: Source = Source { name: "bench_check.cu", text: include_str!("../kernels/bench_check.cu") };
/// The byte that outputs are filled with before a measurement.
pub const POISON: u8 = 0xA5;
const THREADS: u32 = 512;
const BLOCKS: u32 = 2048;
/// Duration for which the device is kept busy: longer than the host takes for all launches of a call, which is at most
/// about 30 microseconds.
const WAIT_NANOSECONDS: u64 = 100_000;

/// Fills and compares bytes on one stream.
pub struct Check {
    fill: Kernel,
    compare: Kernel,
    wait: Kernel,
    stream: Arc<CudaStream>,
    differences: CudaSlice<u64>,
}

impl Check {
    /// Compiles the kernels and checks that a difference is detected.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`]; [`CudaError::Driver`]; [`CudaError::InvalidArgument`] if the kernels do not
    /// work.
    pub fn new(device: &Device, stream: Arc<CudaStream>) -> Result<Self> {
        let specialization = Specialization { assertions: String::new(), source: SOURCE, constants: Vec::new() };
        let kernel = |name| device.kernel(&specialization, name);
        let (fill, compare, wait) = (kernel("bench_fill")?, kernel("bench_differences")?, kernel("bench_wait")?);
        let differences = stream.alloc_zeros(1).doing("allocating")?;
        let mut check = Self { fill, compare, wait, stream, differences };
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

    /// Sets every byte of a buffer.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn poison(&self, to: &mut CudaViewMut<'_, u8>, value: u8) -> Result<()> {
        let bytes = to.len() as u64;
        let mut launch = self.fill.launch_on(&self.stream);
        launch.arg(to).arg(&bytes).arg(&value);
        // SAFETY: the kernel's parameters are (u8 *, u64, u8). It writes the view's bytes.
        unsafe { launch.launch(Kernel::grid(BLOCKS, THREADS, 0)) }?;
        Ok(())
    }

    /// Returns a kernel that keeps the stream busy while the host queues the timed work.
    pub fn wait(&self) -> Wait {
        Wait { kernel: self.wait.clone(), stream: self.stream.clone() }
    }

    /// Returns the number of differing bytes. If the lengths differ, the surplus bytes count as well.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn differences(&mut self, a: &CudaView<'_, u8>, b: &CudaView<'_, u8>) -> Result<u64> {
        let bytes = a.len().min(b.len()) as u64;
        self.stream.memset_zeros(&mut self.differences).doing("clearing a counter")?;
        if bytes > 0 {
            let mut launch = self.compare.launch_on(&self.stream);
            launch.arg(a).arg(b).arg(&bytes).arg(&mut self.differences);
            // SAFETY: the kernel's parameters are (const u8 *, const u8 *, u64, u64 *). It reads bytes that both views
            // have and adds to one counter.
            unsafe { launch.launch(Kernel::grid(BLOCKS, THREADS, 0)) }?;
        }
        let found = self.stream.clone_dtoh(&self.differences).doing("reading a counter")?[0];
        Ok(found + a.len().abs_diff(b.len()) as u64)
    }
}

/// Keeps a stream busy.
pub struct Wait {
    kernel: Kernel,
    stream: Arc<CudaStream>,
}

impl Wait {
    /// Queues a kernel that waits until the host has queued a call's kernels.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn launch(&self) -> Result<()> {
        let mut launch = self.kernel.launch_on(&self.stream);
        launch.arg(&WAIT_NANOSECONDS);
        // SAFETY: the kernel's parameter is a u64; it accesses no memory.
        unsafe { launch.launch(Kernel::grid(1, 1, 0)) }?;
        Ok(())
    }
}

/// Returns the elements of a buffer as bytes.
pub fn view_bytes<S: DeviceRepr>(elements: &CudaSlice<S>) -> CudaView<'_, u8> {
    // SAFETY: every bit pattern is a valid `u8`, and the view has the size of the elements.
    let view = unsafe { elements.transmute::<u8>(elements.len() * size_of::<S>()) };
    view.expect("as many bytes as there are")
}

/// Returns the elements of a buffer as mutable bytes.
pub fn view_bytes_mut<S: DeviceRepr>(elements: &mut CudaSlice<S>) -> CudaViewMut<'_, u8> {
    let bytes = elements.len() * size_of::<S>();
    // SAFETY: as in `view_bytes`; all buffers contain numbers, for which every bit pattern is valid.
    let view = unsafe { elements.transmute_mut::<u8>(bytes) };
    view.expect("as many bytes as there are")
}
