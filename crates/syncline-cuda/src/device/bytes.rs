//! Views of device memory as bytes.

#![allow(unsafe_code)]

use bytemuck::Pod;
use cudarc::driver::{CudaView, CudaViewMut};

/// Returns the elements of a view as bytes.
pub fn view_bytes<'v, T: Pod>(elements: &CudaView<'v, T>) -> CudaView<'v, u8> {
    // SAFETY: the byte view has the size of the elements, and `Pod` types have no padding and no invalid bytes.
    let view = unsafe { elements.transmute::<u8>(size_of::<T>() * elements.len()) };
    view.expect("as many bytes as there are")
}

/// Returns the elements of a view as mutable bytes.
pub fn view_bytes_mut<'v, T: Pod>(elements: &'v mut CudaViewMut<'_, T>) -> CudaViewMut<'v, u8> {
    let length = size_of::<T>() * elements.len();
    // SAFETY: as in `view_bytes`; `Pod` types are also valid with any bytes that are written.
    let view = unsafe { elements.transmute_mut::<u8>(length) };
    view.expect("as many bytes as there are")
}
