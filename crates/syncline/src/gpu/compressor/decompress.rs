//! Streams to arrays, and to regions of arrays.

use std::ops::Range;

use syncline_core::container::ALIGNMENT;
use syncline_core::error::{Error, Result};
use syncline_core::geometry::Region;
use syncline_cuda::CudaError;
use syncline_cuda::cudarc::driver::{CudaView, CudaViewMut};
use syncline_cuda::error::DriverContext;
use syncline_cuda::geometry::boxes::BoxPacker;
use syncline_cuda::pipeline::StreamInfo;

use super::{Compressor, Outline};
use crate::gpu::memory::{Borrowed, DeviceBuffer, borrow, check_alignment, check_len, error};
use crate::gpu::{DeviceBytes, RawStream};
use crate::gpu_backend::{Engine, LayerBatch, Place, layer_batches};

impl Compressor {
    /// Reads the header and the chunk table of a stream in device memory. The header has the element type and the shape
    /// of the array.
    ///
    /// # Safety
    /// As for the input of [`Compressor::decompress`].
    ///
    /// # Errors
    /// The data are not a stream, or one of a newer version; or it is truncated or damaged.
    /// [`Error::Gpu`](crate::Error::Gpu) if the GPU fails.
    pub unsafe fn outline(&mut self, input: DeviceBytes, stream: RawStream) -> Result<Outline> {
        // SAFETY: the caller promises that the stream is live and belongs to the device's primary context.
        unsafe { self.wait_for(stream) }.map_err(error)?;
        // SAFETY: the caller promises that these are the bytes of live device memory; nobody writes to them meanwhile.
        let input = unsafe { borrow::<u8>(&self.stream, input, input.len) };
        StreamInfo::from_device(&self.stream, &input.as_view()).map(Outline).map_err(error)
    }

    /// Decompresses a stream to `output`, which has exactly the length of the array; elements are written in C order.
    /// The checksums of all chunks are verified.
    ///
    /// # Safety
    /// - `input` is memory of this compressor's GPU that may be read, and `output` is memory of this GPU that may be
    ///   written, both for all their `len` bytes until the call returns. They do not overlap.
    /// - `stream` is null or a live stream of the device's primary context.
    /// - Nothing writes to `input`, and nothing reads or writes `output`, from the work that is queued on `stream` at
    ///   the time of the call until the call returns. Work queued on other streams is not waited for.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if a length does not match, `input` is not aligned to
    /// 16 bytes, or `output` is not aligned to its elements (16 bytes for lossless streams). The stream is truncated or
    /// damaged. [`Error::Gpu`](crate::Error::Gpu) if the stream has chunks that only the CPU decompresses, or the GPU
    /// fails. The contents of `output` are unspecified after an error.
    pub unsafe fn decompress(&mut self, input: DeviceBytes, output: DeviceBytes, stream: RawStream) -> Result<()> {
        check_alignment(input, ALIGNMENT, "the input").map_err(error)?;
        // SAFETY: that of this function.
        let outline = unsafe { self.outline(input, stream) }?;
        // SAFETY: that of this function.
        unsafe { self.decompress_outlined(&outline, input, output, stream) }
    }

    /// Decompresses a stream as [`Compressor::decompress`] does, without reading its outline again: `outline` is that
    /// of the stream in `input`. If it is another stream's, the contents of `output` are unspecified, or it is an
    /// error.
    ///
    /// # Safety
    /// That of [`Compressor::decompress`].
    ///
    /// # Errors
    /// Those of [`Compressor::decompress`].
    pub unsafe fn decompress_outlined(
        &mut self,
        outline: &Outline,
        input: DeviceBytes,
        output: DeviceBytes,
        stream: RawStream,
    ) -> Result<()> {
        let Outline(info) = outline;
        // SAFETY: that of this function.
        let (input, mut output) = unsafe { self.borrow(info, input, info.decompressed_len(), output, stream) }?;
        let result = self.decode(info, &input.as_view(), &mut output.view());
        self.settle(result).map_err(error)
    }

    /// Decompresses a region of a stream's array to `output`, which has exactly the length of the region; its elements
    /// are written in C order. `region` has one range for each axis of the array, slowest first. Only the layers of
    /// tiles that the region meets are decoded, about 128 MiB of them at a time, and the checksums of their chunks are
    /// verified. `outline` is that of the stream in `input`, as for [`Compressor::decompress_outlined`].
    ///
    /// # Safety
    /// That of [`Compressor::decompress`].
    ///
    /// # Errors
    /// Those of [`Compressor::decompress`], with the length of the region in place of that of the array.
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the region is not inside of the array.
    pub unsafe fn decompress_region(
        &mut self,
        outline: &Outline,
        input: DeviceBytes,
        region: &[Range<u64>],
        output: DeviceBytes,
        stream: RawStream,
    ) -> Result<()> {
        let Outline(info) = outline;
        let region = info.geometry().region(region)?;
        let bytes = region.len().saturating_mul(info.header().element_type.size() as u64);
        // SAFETY: that of this function.
        let (input, mut output) = unsafe { self.borrow(info, input, bytes, output, stream) }?;
        let result = self.decode_region(info, &region, &input.as_view(), &mut output.view());
        self.settle(result).map_err(error)
    }

    /// Checks memory for a stream and for `needed` bytes of elements, and returns it, after what is queued on the
    /// caller's stream.
    ///
    /// # Safety
    /// That of [`Compressor::decompress`], until both results are dropped.
    unsafe fn borrow(
        &self,
        info: &StreamInfo,
        input: DeviceBytes,
        needed: u64,
        output: DeviceBytes,
        stream: RawStream,
    ) -> Result<(Borrowed<u8>, Borrowed<u8>)> {
        check_alignment(input, ALIGNMENT, "the input").map_err(error)?;
        if input.len as u64 != info.stream_len() {
            let text = format!("the input has {} bytes, but its outline is of {} bytes", input.len, info.stream_len());
            return Err(Error::invalid(text));
        }
        // SAFETY: the caller promises that the stream is live and belongs to the device's primary context.
        unsafe { self.wait_for(stream) }.map_err(error)?;
        check_len(output, needed, "the output").map_err(error)?;
        check_alignment(output, info.header().element_type.size(), "the output").map_err(error)?;
        // SAFETY: the caller promises that these are the bytes of live device memory; nobody writes to the input, and
        // nobody else uses the output, meanwhile.
        Ok(unsafe { (borrow(&self.stream, input, input.len), borrow(&self.stream, output, output.len)) })
    }

    /// Decompresses a stream and waits for it.
    fn decode(
        &mut self,
        info: &StreamInfo,
        input: &CudaView<'_, u8>,
        output: &mut CudaViewMut<'_, u8>,
    ) -> std::result::Result<(), CudaError> {
        let mut engine = Engine::new(self.device, &self.stream, info, &mut self.former)?;
        engine.array(input, output)?;
        self.former.keep(engine);
        Ok(())
    }

    /// Decompresses a region and waits for it.
    fn decode_region(
        &mut self,
        info: &StreamInfo,
        region: &Region,
        input: &CudaView<'_, u8>,
        output: &mut CudaViewMut<'_, u8>,
    ) -> std::result::Result<(), CudaError> {
        let size = info.header().element_type.size();
        let batches = layer_batches(info.geometry(), region, size as u64, self.region_batch);
        let elements_of = |batch: &LayerBatch| batch.elements.end - batch.elements.start;
        let Some(most) = batches.iter().map(elements_of).max() else { return Ok(()) };
        let mut slab = DeviceBuffer::new(&self.stream, most as usize * size)?;
        let slab = slab.slice_mut();
        let mut packer = BoxPacker::new(self.device, &self.stream, size as u64)?;
        let mut engine = Engine::new(self.device, &self.stream, info, &mut self.former)?;
        for batch in &batches {
            let made = elements_of(batch) as usize * size;
            let mut made = slab.slice_mut(..made);
            engine.tiles(input, 0, batch.tiles.clone(), &mut made, batch.elements.start)?;
            let [start, end] = [batch.part.start, batch.part.end].map(|element| element as usize * size);
            let mut part = output.slice_mut(start..end);
            match &batch.place {
                Place::From(first) => {
                    let first = *first as usize * size;
                    let from = made.slice(first..first + end - start);
                    self.stream.memcpy_dtod(&from, &mut part).doing("copying a region")?;
                }
                Place::Boxes(boxes, shape) => packer.pack(boxes, *shape, &made.as_view(), &mut part)?,
            }
        }
        self.stream.synchronize().doing("waiting for a region")?;
        self.former.keep(engine);
        Ok(())
    }
}
