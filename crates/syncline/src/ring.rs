//! The part of an array that is in memory while the array passes from start to end.

use std::io;
use std::ops::Range;

use crate::io::ReadAt;

/// Storage grows by this fraction more than is needed, so that growing little by little moves each byte a few times.
const SPARE: u64 = 8;
/// Storage has a multiple of this many bytes, so that no element lies across its end.
const GRAIN: u64 = 64;

/// Consecutive bytes of an array. Bytes are added at the end and forgotten at the start, and none is moved for that:
/// the storage is used in a circle.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    storage: Vec<u8>,
    /// Index in the storage of the first byte.
    start: usize,
    /// Number of bytes.
    length: usize,
    /// Position in the array of the first byte.
    position: u64,
    /// Bytes that were moved because the storage grew.
    #[cfg(test)]
    pub(crate) moved: usize,
}

impl Ring {
    /// Returns the position in the array of the first byte.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the position in the array after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.position + self.length as u64
    }

    /// Returns the number of bytes of memory.
    pub(crate) fn capacity(&self) -> u64 {
        self.storage.len() as u64
    }

    /// Adds bytes up to this position in the array. They may have any value, and take no memory before they are
    /// written, as far as the storage is new. Returns whether there is memory for them: no more than `limit` bytes.
    #[must_use]
    pub(crate) fn extend_to(&mut self, end: u64, limit: u64) -> bool {
        let needed = end.saturating_sub(self.position);
        if needed > self.capacity() {
            let spare = (needed / SPARE).min(limit.saturating_sub(needed));
            let wanted = needed.saturating_add(spare).checked_next_multiple_of(GRAIN);
            let Some(length) = wanted.and_then(|length| usize::try_from(length).ok()) else { return false };
            if needed > limit || Vec::<u8>::new().try_reserve_exact(length).is_err() {
                return false;
            }
            // Zeroed memory takes no room before it is written.
            let mut storage = vec![0; length];
            let (older, newer) = self.parts(self.position..self.end());
            storage[..older.len()].copy_from_slice(older);
            storage[older.len()..self.length].copy_from_slice(newer);
            #[cfg(test)]
            {
                self.moved += self.length;
            }
            (self.storage, self.start) = (storage, 0);
        }
        self.length = self.length.max(needed as usize);
        true
    }

    /// Adds these bytes. Returns whether there is memory for them: no more than `limit` bytes.
    #[must_use]
    pub(crate) fn push(&mut self, bytes: &[u8], limit: u64) -> bool {
        let end = self.end();
        let has_room = self.extend_to(end + bytes.len() as u64, limit);
        if has_room {
            self.write(bytes, end);
        }
        has_room
    }

    /// Writes bytes at a position in the array.
    pub(crate) fn write(&mut self, bytes: &[u8], position: u64) {
        let [older, newer] = self.places(position..position + bytes.len() as u64);
        let (first, second) = bytes.split_at(older.len());
        self.storage[older].copy_from_slice(first);
        self.storage[newer].copy_from_slice(second);
    }

    /// Returns the bytes in a range of positions: those up to the end of the storage, and those after it.
    pub(crate) fn parts(&self, range: Range<u64>) -> (&[u8], &[u8]) {
        let [older, newer] = self.places(range);
        (&self.storage[older], &self.storage[newer])
    }

    /// Returns all contiguous bytes that include a range of positions, and the position of the first, unless the range
    /// goes on after the end of the storage.
    pub(crate) fn contiguous(&self, range: Range<u64>) -> Option<(&[u8], u64)> {
        let (older, newer) = self.parts(self.position..self.end());
        let wrap = self.position + older.len() as u64;
        if range.end <= wrap {
            return Some((older, self.position));
        }
        (range.start >= wrap).then_some((newer, wrap))
    }

    /// Forgets the bytes before this position in the array.
    pub(crate) fn forget_to(&mut self, position: u64) {
        let count = (position - self.position) as usize;
        self.position = position;
        self.length -= count;
        self.start = match self.length {
            0 => 0,
            _ => (self.start + count) % self.storage.len(),
        };
    }

    /// Returns the indices in the storage of a range of positions, in two parts.
    fn places(&self, range: Range<u64>) -> [Range<usize>; 2] {
        debug_assert!(range.start >= self.position && range.end <= self.end(), "{range:?} of {self:?}");
        let from = self.start + (range.start - self.position) as usize;
        let to = from + (range.end - range.start) as usize;
        let size = self.storage.len();
        match (from < size, to <= size) {
            (_, true) => [from..to, 0..0],
            (true, false) => [from..size, 0..to - size],
            (false, false) => [from - size..to - size, 0..0],
        }
    }
}

/// Offsets are positions in the array.
impl ReadAt for Ring {
    fn size(&self) -> io::Result<u64> {
        Ok(self.end())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset + buffer.len() as u64;
        if offset < self.position || end > self.end() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (older, newer) = self.parts(offset..end);
        let (first, second) = buffer.split_at_mut(older.len());
        first.copy_from_slice(older);
        second.copy_from_slice(newer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn byte(position: u64) -> u8 {
        (position * 7 % 251) as u8
    }

    proptest! {
        #[test]
        fn ring_has_the_bytes_of_the_array(steps in prop::collection::vec((1usize..400, 0u64..100), 1..60)) {
            let mut ring = Ring::default();
            for (pushed, share) in steps {
                let end = ring.end();
                let bytes: Vec<u8> = (end..end + pushed as u64).map(byte).collect();
                prop_assert!(ring.push(&bytes, u64::MAX));
                ring.forget_to(ring.position() + (ring.end() - ring.position()) * share / 100);
                let range = ring.position()..ring.end();
                let expected: Vec<u8> = range.clone().map(byte).collect();
                let (older, newer) = ring.parts(range.clone());
                prop_assert!([older, newer].concat() == expected);
                let mut read = vec![0; expected.len()];
                ring.read_exact_at(&mut read, range.start).unwrap();
                prop_assert!(read == expected);
                let middle = range.start + (range.end - range.start) / 3..range.end - (range.end - range.start) / 3;
                if let Some((bytes, first)) = ring.contiguous(middle.clone()) {
                    let place = (middle.start - first) as usize..(middle.end - first) as usize;
                    prop_assert!(bytes[place] == middle.map(byte).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn bytes_are_moved_only_while_the_storage_grows() {
        let mut ring = Ring::default();
        for _ in 0..1000 {
            assert!(ring.push(&[1; 1000], u64::MAX));
            if ring.end() > 100_000 {
                ring.forget_to(ring.end() - 100_000);
            }
        }
        assert!(ring.moved < 1_000_000 && ring.capacity() < 125_000, "{} {}", ring.moved, ring.capacity());
    }

    #[test]
    fn limit_is_kept_and_can_be_used_up() {
        let mut ring = Ring::default();
        assert!(ring.push(&[1; 6400], 6400));
        assert_eq!(ring.capacity(), 6400);
        assert!(!ring.push(&[1], 6400));
        ring.forget_to(1);
        assert!(ring.push(&[1], 6400));
        assert!(!ring.extend_to(u64::MAX, u64::MAX));
        assert_eq!(ring.end(), 6401);
    }
}
