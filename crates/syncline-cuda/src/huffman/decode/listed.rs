//! Streams of a small batch, and which block has what, as an argument of a launch: a block would else read that from
//! memory, one thing after the other, before it could begin.

#![allow(unsafe_code)]

use cudarc::driver::DeviceRepr;

use super::batch::Descriptor;

/// Streams at most: arguments are 4 KB at most.
pub(super) const MOST_LISTED: usize = 16;
/// Blocks at most. What a stream's blocks count themselves by has room for 255.
pub(super) const MOST_BLOCKS: usize = 192;

/// Words of a stream's `Tally` (`huffman/decode/small.cuh`).
pub(super) const TALLY_WORDS: usize = 6;

/// `Part` of `huffman/decode/small.cuh`: the share of a block, units `first` to `end` of a stream, of whose blocks it
/// is number `index` of `blocks`; of no blocks if it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
struct Part {
    first: u16,
    end: u16,
    stream: u8,
    index: u8,
    blocks: u8,
    unused: u8,
}

/// `List` of `huffman/decode/small.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct List {
    /// 0 if streams are not listed.
    count: u32,
    most: u32,
    parts: [Part; MOST_BLOCKS],
    streams: [Descriptor; MOST_LISTED],
}

// SAFETY: integers without padding (two of 4 bytes, then parts of 8 bytes each, then descriptors, which start on a
// multiple of 8 bytes), laid out as the kernels' struct.
unsafe impl DeviceRepr for List {}

impl List {
    /// No list: the kernel reads descriptors from memory.
    pub fn none() -> Self {
        Self { count: 0, most: 0, parts: [Part::default(); MOST_BLOCKS], streams: [Descriptor::default(); MOST_LISTED] }
    }

    /// Whether there is room for so many streams and blocks.
    pub fn fits(descriptors: &[Descriptor], blocks: u32) -> bool {
        (1..=MOST_LISTED).contains(&descriptors.len()) && blocks as usize <= MOST_BLOCKS
    }

    /// The list for `blocks` blocks which have units of one stream each, `most` of them at most; a stream without any
    /// has a block too. `None` if there are too many of anything.
    pub fn new(descriptors: &[Descriptor], blocks: u32, most: u32, units: impl Fn(&Descriptor) -> u32) -> Option<Self> {
        if !Self::fits(descriptors, blocks) {
            return None;
        }
        let mut list = Self { count: descriptors.len() as u32, most, ..Self::none() };
        list.streams[..descriptors.len()].copy_from_slice(descriptors);
        let mut parts = list.parts.iter_mut().take(blocks as usize);
        for (stream, descriptor) in descriptors.iter().enumerate() {
            let units = u16::try_from(units(descriptor)).ok()?;
            // No more than there are blocks, or the next part is not there.
            let own = u32::from(units).div_ceil(most.max(1)).clamp(1, u16::MAX.into()) as u16;
            let (each, more) = (units / own, units % own);
            let mut first = 0;
            for index in 0..own {
                let end = first + each + u16::from(index < more);
                let (stream, index, blocks) = (stream as u8, index as u8, own as u8);
                *parts.next()? = Part { first, end, stream, index, blocks, unused: 0 };
                first = end;
            }
        }
        Some(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_has_a_block() {
        let streams = [Descriptor::default(); 3];
        let units = std::cell::RefCell::new([7_u32, 0, 4].into_iter());
        let list = List::new(&streams, 6, 3, |_| units.borrow_mut().next().unwrap()).unwrap();
        let part =
            |stream, index, blocks, [first, end]: [u16; 2]| Part { first, end, stream, index, blocks, unused: 0 };
        let expected = [
            part(0, 0, 3, [0, 3]),
            part(0, 1, 3, [3, 5]),
            part(0, 2, 3, [5, 7]),
            part(1, 0, 1, [0, 0]),
            part(2, 0, 2, [0, 2]),
            part(2, 1, 2, [2, 4]),
        ];
        assert_eq!(list.parts[..6], expected);
        assert_eq!((list.parts[6], list.count, list.most), (Part::default(), 3, 3));
        assert!(List::new(&streams, 2, 3, |_| 3).is_none(), "not enough blocks");
        assert!(List::new(&[Descriptor::default(); 17], 100, 3, |_| 3).is_none());
        assert!(List::new(&streams, 193, 3, |_| 3).is_none());
    }
}
