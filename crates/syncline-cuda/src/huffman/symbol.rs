//! Symbol types of the device's Huffman coders.

use cudarc::driver::DeviceRepr;

/// A symbol type: `u8` or `u16`.
pub trait Symbol: DeviceRepr + sealed::Sealed {
    /// Bytes of a symbol.
    const BYTES: u32;
}

impl Symbol for u8 {
    const BYTES: u32 = 1;
}

impl Symbol for u16 {
    const BYTES: u32 = 2;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
}
