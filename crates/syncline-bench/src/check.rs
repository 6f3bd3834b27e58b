//! Poisoning and comparing buffers in device memory, and keeping the device busy: launchers of
//! `kernels/bench_check.cu`.

#![allow(unsafe_code)]

use std::sync::Arc;

use syncline_cuda::cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DeviceRepr, PushKernelArg};
use syncline_cuda::device::{Device, Kernel, Source, Specialization};
use syncline_cuda::error::{CudaError, DriverContext, Result};

const SOURCE: Source = Source { name: "bench_check.cu", text: include_str!("../kernels/bench_check.cu") };
/// What outputs are filled with.
pub const POISON: u8 = 0xA5;
const THREADS: u32 = 512;
const BLOCKS: u32 = 2048;
/// How long the device is kept busy: longer than the host takes for all that a call launches, which is some 30
/// microseconds where there are most.
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
    /// Compiles the kernels, and makes sure that a difference would be found.
    ///
    /// # Errors
    /// Those of [`Device::kernel`]; [`CudaError::Driver`]; [`CudaError::InvalidArgument`] if the kernels do not work.
    pub fn new(device: &Device, stream: Arc<CudaStream>) -> Result<Self> {
        let specialization = Specialization { source: SOURCE, constants: Vec::new() };
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

    /// What keeps the stream busy while the host queues what is timed.
    pub fn wait(&self) -> Wait {
        Wait { kernel: self.wait.clone(), stream: self.stream.clone() }
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
            // SAFETY: parameters (const u8 *, const u8 *, u64, u64 *): reads bytes that both views have, adds to one
            // counter.
            unsafe { launch.launch(Kernel::grid(BLOCKS, THREADS, 0)) }.doing("comparing")?;
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
    /// For so long that the host has queued a call's kernels before the device begins with them.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn launch(&self) -> Result<()> {
        let mut launch = self.stream.launch_builder(self.kernel.function());
        launch.arg(&WAIT_NANOSECONDS);
        // SAFETY: parameter u64: touches no memory.
        unsafe { launch.launch(Kernel::grid(1, 1, 0)) }.doing("waiting on the device")?;
        Ok(())
    }
}

/// The elements of a buffer as bytes.
pub fn view_bytes<S: DeviceRepr>(elements: &CudaSlice<S>) -> CudaView<'_, u8> {
    // SAFETY: any bytes are valid ones, and the view is as long as what it is of.
    let view = unsafe { elements.transmute::<u8>(elements.len() * size_of::<S>()) };
    view.expect("as many bytes as there are")
}

/// The elements of a buffer as bytes to be written.
pub fn view_bytes_mut<S: DeviceRepr>(elements: &mut CudaSlice<S>) -> CudaViewMut<'_, u8> {
    let bytes = elements.len() * size_of::<S>();
    // SAFETY: as above, and every bit pattern that may be written is a valid number: buffers are of nothing else here.
    let view = unsafe { elements.transmute_mut::<u8>(bytes) };
    view.expect("as many bytes as there are")
}
