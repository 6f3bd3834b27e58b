//! Raw bits, from bit 0 of the first byte up.

/// Bytes of zeros behind the raw bits of a chunk, so that a reader may load 16 bytes from any of them.
pub const PADDING: usize = 16;

/// Writes the raw bits of tiles, each of which starts at a byte.
#[derive(Debug, Default)]
pub struct RawBits {
    bytes: Vec<u8>,
    at: usize,
}

impl RawBits {
    /// Starts anew.
    pub fn clear(&mut self) {
        self.at = 0;
    }

    /// Returns the bytes, without padding.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.at]
    }

    /// Appends the raw bits of a tile of at most `count` codes, which `write` puts. Returns their bytes.
    #[inline(always)]
    pub fn tile(&mut self, count: usize, write: impl FnOnce(&mut TileBits<'_>)) -> u32 {
        let room = self.at + 8 * count + 16;
        if self.bytes.len() < room {
            self.bytes.resize(room.next_power_of_two(), 0);
        }
        let mut bits = TileBits { bytes: &mut self.bytes[self.at..], at: 0, pending: 0, filled: 0 };
        write(&mut bits);
        let length = bits.finish();
        self.at += length;
        length as u32
    }
}

/// Writes the raw bits of a tile.
#[derive(Debug)]
pub struct TileBits<'a> {
    bytes: &'a mut [u8],
    at: usize,
    pending: u64,
    filled: u32,
}

impl TileBits<'_> {
    /// Appends the `width` low bits of `raw`, at most 56; the bits above them are 0.
    #[inline(always)]
    pub fn put(&mut self, raw: u64, width: u32) {
        let merged = self.pending | raw << self.filled;
        self.bytes[self.at..self.at + 8].copy_from_slice(&merged.to_le_bytes());
        let total = self.filled + width;
        self.at += (total >> 3) as usize;
        // At most 63 bits are filled.
        self.pending = merged >> (total & 56);
        self.filled = total & 7;
    }

    /// Appends the `width` low bits of `raw`, at most 64; the bits above them are 0.
    #[inline(always)]
    pub fn put_wide(&mut self, raw: u64, width: u32) {
        let low = width.min(32);
        self.put(raw & ((1 << low) - 1), low);
        self.put(raw >> low, width - low);
    }

    fn finish(self) -> usize {
        self.at + self.filled.div_ceil(8) as usize
    }
}

/// Returns the 57 bits or more from bit `at` on. Past the end of `bytes`, which has [`PADDING`] bytes, they are
/// unspecified.
///
/// # Panics
/// `bytes` has no padding.
#[inline(always)]
pub fn window(bytes: &[u8], at: usize) -> u64 {
    // One predictable comparison: a damaged stream reads other bits, never past the end.
    let byte = (at >> 3).min(bytes.len() - 8);
    let bytes: &[u8; 8] = bytes[byte..].first_chunk().expect("eight bytes");
    u64::from_le_bytes(*bytes) >> (at & 7)
}

/// Returns `width` bits, at most 64, from bit `at` on. Past the end of `bytes`, which has [`PADDING`] bytes, they are
/// unspecified.
///
/// # Panics
/// `bytes` has no padding.
#[inline(always)]
pub fn read_wide(bytes: &[u8], at: usize, width: u32) -> u64 {
    let byte = (at >> 3).min(bytes.len() - PADDING);
    let bytes: &[u8; PADDING] = bytes[byte..].first_chunk().expect("padding");
    let bits = (u128::from_le_bytes(*bytes) >> (at & 7)) as u64;
    low_bits(bits, width)
}

/// Returns the low `width` bits, at most 64.
#[inline(always)]
pub fn low_bits(bits: u64, width: u32) -> u64 {
    if width == 64 { bits } else { bits & !(u64::MAX << width) }
}
