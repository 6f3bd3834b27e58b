//! Copies boxes out of a part of an array: launches `kernels/geometry/boxes.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut};

use crate::device::{Arena, Device, Grid, Specialization};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::device_struct::device_struct;
use crate::error::{CudaError, Result};

declare_kernels! {
    /// The kernels of `kernels/geometry/boxes.cu`.
    struct BoxKernels in "geometry/boxes.cu", by (element_bytes: u64) {
        /// Threads of a block.
        const THREADS: u32 = 128;
        fn boxes_pack(
            boxes: In<BoxRows>, count: u32, shape: BoxShape, slab: In<u8> as "const word_t *",
            packed: Out<u8> as "word_t *",
        );
    }
}

/// Most blocks of a launch, each of which copies many rows.
const MOST_BLOCKS: u64 = 1 << 14;

device_struct! {
    /// A box of elements in a part of an array, as rows along its fastest axis.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BoxRows {
        /// Rows of the boxes before.
        pub first_row: u64,
        /// The number of its first element in the part of the array.
        pub from: u64,
    }
}

device_struct! {
    /// What boxes have in common.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BoxShape {
        /// Rows of all boxes.
        pub rows: u64,
        /// Elements of a row.
        pub length: u64,
        /// Rows of a plane.
        pub in_plane: u64,
        /// Elements from one plane to the next, and from one row to the next.
        pub strides: [u64; 2],
    }
}

/// Copies boxes on one stream, and keeps its memory between calls.
#[derive(Debug)]
pub struct BoxPacker {
    kernels: BoxKernels,
    arena: Arena,
    element_bytes: u64,
}

impl BoxPacker {
    /// Returns a packer for elements of so many bytes that works on `stream`.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`].
    pub fn new(device: &Device, stream: &Arc<CudaStream>, element_bytes: u64) -> Result<Self> {
        Ok(Self { kernels: BoxKernels::load(device, element_bytes)?, arena: Arena::new(stream.clone()), element_bytes })
    }

    /// Queues copying the boxes' rows, one after another, to the start of `packed`.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if a box is not in `slab`, boxes are not in order, or `packed` is too short;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn pack(
        &mut self,
        boxes: &[BoxRows],
        shape: BoxShape,
        slab: &CudaView<'_, u8>,
        packed: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        let of = |bytes: usize| bytes as u64 / self.element_bytes;
        let fits = shape.rows.checked_mul(shape.length).is_some_and(|elements| elements <= of(packed.len()));
        if !fits || !are_inside(boxes, shape, of(slab.len())) {
            return Err(CudaError::invalid("boxes that are not in a part of an array, or have no room"));
        }
        if boxes.is_empty() || shape.rows == 0 {
            return Ok(());
        }
        let mut frame = self.arena.frame()?;
        let stream = frame.stream().clone();
        let on_device = frame.upload(boxes)?;
        let blocks = shape.rows.div_ceil(u64::from(THREADS / 32)).min(MOST_BLOCKS);
        // SAFETY: all rows of all boxes are in the slab, and there is room for them.
        unsafe {
            launch!(self.kernels.boxes_pack on &stream, Grid::new(blocks as u32, THREADS); &on_device,
                boxes.len() as u32, shape, slab, packed)
        }
    }
}

/// Returns whether boxes are in the order of their rows, the first one from row 0 on, and in a part of an array with so
/// many elements.
fn are_inside(boxes: &[BoxRows], shape: BoxShape, elements: u64) -> bool {
    let starts = boxes.iter().map(|one| one.first_row);
    let ends = starts.clone().skip(1).chain([shape.rows]);
    boxes.first().is_none_or(|first| first.first_row == 0)
        && boxes.len() <= u32::MAX as usize
        && shape.in_plane > 0
        && starts.zip(ends).zip(boxes).all(|((start, end), one)| {
            let rows = end.checked_sub(start).filter(|&rows| rows > 0);
            let end = rows.and_then(|rows| {
                let planes = ((rows - 1) / shape.in_plane).checked_mul(shape.strides[0])?;
                let in_plane = shape.in_plane.min(rows) - 1;
                let in_plane = in_plane.checked_mul(shape.strides[1])?.checked_add(shape.length)?;
                one.from.checked_add(planes)?.checked_add(in_plane)
            });
            end.is_some_and(|end| end <= elements)
        })
}

/// Returns every specialization, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    [1, 2, 4, 8].map(BoxKernels::specialization).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_inside_of_their_part() {
        let shape = BoxShape { rows: 5, length: 3, in_plane: 2, strides: [100, 10] };
        let rows = |first_row, from| BoxRows { first_row, from };
        // Rows 0 to 3 of the first one end at 7 + 100 + 10 + 3, and row 4 of the second one at 117 + 3.
        assert!(are_inside(&[rows(0, 7), rows(4, 117)], shape, 120));
        assert!(!are_inside(&[rows(0, 8), rows(4, 117)], shape, 120));
        assert!(!are_inside(&[rows(0, 7), rows(4, 118)], shape, 120));
        assert!(!are_inside(&[rows(1, 7), rows(4, 117)], shape, 120));
        assert!(!are_inside(&[rows(0, 7), rows(4, 117), rows(2, 0)], shape, 120));
        assert!(!are_inside(&[rows(0, u64::MAX)], shape, 120));
        assert!(are_inside(&[], BoxShape { rows: 0, ..shape }, 0));
    }
}
