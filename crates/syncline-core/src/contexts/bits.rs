//! Small integers as bits, from bit 0 of the first byte up: those that are written once for a chunk or a block.

use crate::predict::word::Word;

/// Appends integers of any width below 32 bits to bytes.
#[derive(Clone, Debug, Default)]
pub struct PackedWriter {
    out: Vec<u8>,
    pending: u64,
    filled: u32,
}

impl PackedWriter {
    /// Appends the low `count` bits of `bits`, at most 32, above which there are none.
    pub fn put(&mut self, bits: u32, count: u32) {
        debug_assert!(count == 32 || bits >> count == 0);
        self.pending |= u64::from(bits) << self.filled;
        self.filled += count;
        while self.filled >= 8 {
            self.out.push(self.pending as u8);
            self.pending >>= 8;
            self.filled -= 8;
        }
    }

    /// Appends a number as an Elias gamma code of the number plus 1: its bits after the highest, behind as many zeros
    /// and a one.
    pub fn put_gamma(&mut self, number: u32) {
        let above = u64::from(number) + 1;
        let rest = above.ilog2();
        self.put(0, rest);
        self.put(1, 1);
        self.put((above - (1 << rest)) as u32, rest);
    }

    /// Appends a number of any sign as the gamma code of its zigzag code.
    pub fn put_signed(&mut self, number: i32) {
        self.put_gamma((number as u32).zigzag());
    }

    /// Returns the number of bits so far.
    pub fn bits(&self) -> usize {
        self.out.len() * 8 + self.filled as usize
    }

    /// Returns the bytes, the last one filled up with zeros.
    pub fn finish(mut self) -> Vec<u8> {
        if self.filled > 0 {
            self.out.push(self.pending as u8);
        }
        self.out
    }
}

/// Reads what a [`PackedWriter`] wrote.
#[derive(Clone, Debug)]
pub struct PackedReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> PackedReader<'a> {
    /// Returns a reader of bits from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads `count` bits, at most 32. `None` if fewer are left.
    pub fn take(&mut self, count: u32) -> Option<u32> {
        let end = self.at + count as usize;
        if end > self.bytes.len() * 8 {
            return None;
        }
        let mut value = 0;
        for (place, at) in (self.at..end).enumerate() {
            value |= u32::from(self.bytes[at / 8] >> (at % 8) & 1) << place;
        }
        self.at = end;
        Some(value)
    }

    /// Reads a number that [`PackedWriter::put_gamma`] wrote. `None` if there is none.
    pub fn take_gamma(&mut self) -> Option<u32> {
        let mut rest = 0;
        while self.take(1)? == 0 {
            rest += 1;
            if rest > 32 {
                return None;
            }
        }
        let above = (1 << rest) + u64::from(self.take(rest)?);
        u32::try_from(above - 1).ok()
    }

    /// Reads a number that [`PackedWriter::put_signed`] wrote. `None` if there is none.
    pub fn take_signed(&mut self) -> Option<i32> {
        Some(self.take_gamma()?.unzigzag() as i32)
    }

    /// Returns whether less than a byte is left, all of it zeros.
    pub fn is_finished(mut self) -> bool {
        let left = self.bytes.len() * 8 - self.at;
        left < 8 && self.take(left as u32) == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_written() {
        let numbers = [0, 1, -1, 7, i32::MAX, i32::MIN, 65_535, -3];
        let mut writer = PackedWriter::default();
        for number in numbers {
            writer.put_signed(number);
            writer.put_gamma(number as u32);
            writer.put(number as u32 & 0x1F, 5);
            writer.put(number as u32, 32);
        }
        let bits = writer.bits();
        let bytes = writer.finish();
        assert_eq!(bytes.len(), bits.div_ceil(8));
        let mut reader = PackedReader::new(&bytes);
        for number in numbers {
            assert_eq!(reader.take_signed(), Some(number));
            assert_eq!(reader.take_gamma(), Some(number as u32));
            assert_eq!(reader.take(5), Some(number as u32 & 0x1F));
            assert_eq!(reader.take(32), Some(number as u32));
        }
        assert!(reader.clone().is_finished());
        assert_eq!(reader.take(8), None);
        assert_eq!(PackedReader::new(&[0; 9]).take_gamma(), None);
    }
}
