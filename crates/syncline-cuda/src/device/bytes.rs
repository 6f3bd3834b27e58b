//! Device memory seen as bytes, whatever it holds.

#![allow(unsafe_code)]

use bytemuck::Pod;
use cudarc::driver::{CudaView, CudaViewMut};

/// The elements of a view as bytes.
pub fn view_bytes<'v, T: Pod>(elements: &CudaView<'v, T>) -> CudaView<'v, u8> {
    // SAFETY: the view is as long as what it is of, and plain elements are bytes that all have values.
    let view = unsafe { elements.transmute::<u8>(size_of::<T>() * elements.len()) };
    view.expect("as many bytes as there are")
}

/// The same to be written.
pub fn view_bytes_mut<'v, T: Pod>(elements: &'v mut CudaViewMut<'_, T>) -> CudaViewMut<'v, u8> {
    let length = size_of::<T>() * elements.len();
    // SAFETY: as above, and whatever is written, plain elements are valid with it.
    let view = unsafe { elements.transmute_mut::<u8>(length) };
    view.expect("as many bytes as there are")
}
