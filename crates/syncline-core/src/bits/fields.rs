//! Fields of whole bytes, little-endian: reading them one after another, and alignment.

use crate::error::{Error, Result};

/// Appends zero bytes until `out.len()` is a multiple of `alignment`.
pub fn align(out: &mut Vec<u8>, alignment: usize) {
    out.resize(out.len().next_multiple_of(alignment), 0);
}

/// Cursor over bytes that never reads past their end.
#[derive(Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    position: usize,
    place: &'a str,
}

impl<'a> Fields<'a> {
    /// Returns a cursor at the start of `bytes`. Errors contain `place` as the name of the bytes.
    pub fn new(bytes: &'a [u8], place: &'a str) -> Self {
        Self { bytes, position: 0, place }
    }

    /// Returns the next `len` bytes and moves past them.
    ///
    /// # Errors
    /// [`Error::Truncated`] if fewer are left.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.position..];
        let (taken, _) =
            rest.split_at_checked(len).ok_or_else(|| Error::truncated(self.place, len as u64, rest.len() as u64))?;
        self.position += len;
        Ok(taken)
    }

    /// Returns the next `N` bytes and moves past them.
    ///
    /// # Errors
    /// As [`Fields::take`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    /// Reads the next u8.
    ///
    /// # Errors
    /// As [`Fields::take`].
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads the next u16.
    ///
    /// # Errors
    /// As [`Fields::take`].
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads the next u32.
    ///
    /// # Errors
    /// As [`Fields::take`].
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads the next u64.
    ///
    /// # Errors
    /// As [`Fields::take`].
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads the next f64.
    ///
    /// # Errors
    /// As [`Fields::take`].
    pub fn f64(&mut self) -> Result<f64> {
        self.array().map(f64::from_le_bytes)
    }

    /// Skips the zero bytes up to the next multiple of `alignment`.
    ///
    /// # Errors
    /// They are missing or not zero.
    pub fn align(&mut self, alignment: usize) -> Result<()> {
        let padding = self.take(self.position.next_multiple_of(alignment) - self.position)?;
        if padding.iter().any(|&b| b != 0) {
            return Err(Error::corrupt(self.place, "padding is not zero"));
        }
        Ok(())
    }

    /// Returns the number of bytes consumed so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns all remaining bytes.
    pub fn rest(self) -> &'a [u8] {
        &self.bytes[self.position..]
    }
}
