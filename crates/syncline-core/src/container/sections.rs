//! The sections of a payload: a table of lengths, then each section on its own alignment.

use super::ALIGNMENT;
use crate::bits::fields::{Fields, align};
use crate::error::Result;

/// Sections of a payload.
pub const SECTIONS: usize = 10;
/// Bytes of the table of their lengths.
pub(super) const SECTION_TABLE_LEN: usize = SECTIONS * 4;

/// Reads the lengths of the sections, with which a payload starts.
///
/// # Errors
/// [`Error::Truncated`](crate::error::Error::Truncated).
pub(super) fn section_lengths(payload: &[u8], place: &str) -> Result<[usize; SECTIONS]> {
    let mut fields = Fields::new(payload, place);
    let mut lengths = [0; SECTIONS];
    for length in &mut lengths {
        *length = fields.u32()? as usize;
    }
    Ok(lengths)
}

/// Writes sections one after another and their lengths into the table in front.
#[derive(Debug)]
pub struct SectionWriter {
    table_at: usize,
    next: usize,
}

impl SectionWriter {
    /// Reserves the table at the end of `out`.
    pub fn begin(out: &mut Vec<u8>) -> Self {
        let table_at = out.len();
        out.resize(table_at + SECTION_TABLE_LEN, 0);
        Self { table_at, next: 0 }
    }

    /// Appends the next section: the bytes that `write` appends to `out`, which is aligned before. Later sections that
    /// are omitted are empty.
    ///
    /// # Panics
    /// The section has 2^32 bytes or more, which none of a chunk comes near, or the table is full.
    pub fn section<R>(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        align(out, ALIGNMENT);
        let start = out.len();
        let result = write(out);
        let length = u32::try_from(out.len() - start).expect("a chunk holds at most 2^22 elements");
        let entry = self.table_at + self.next * 4;
        out[entry..entry + 4].copy_from_slice(&length.to_le_bytes());
        self.next += 1;
        result
    }

    /// Leaves the next section empty.
    pub fn skip(&mut self) {
        self.next += 1;
    }
}

/// The sections of a payload that was read; then each with all of the payload that follows.
#[derive(Debug)]
pub struct Sections<'a>(pub [&'a [u8]; SECTIONS], pub [&'a [u8]; SECTIONS]);

impl<'a> Sections<'a> {
    /// Splits the payload of a record.
    ///
    /// # Errors
    /// The table does not fit the payload.
    pub fn parse(payload: &'a [u8], place: &'a str) -> Result<Self> {
        let lengths = section_lengths(payload, place)?;
        let mut fields = Fields::new(payload, place);
        fields.take(SECTION_TABLE_LEN)?;
        let mut sections = [&payload[..0]; SECTIONS];
        let mut tails = sections;
        for ((section, tail), length) in sections.iter_mut().zip(&mut tails).zip(lengths) {
            if length > 0 {
                fields.align(ALIGNMENT)?;
                *tail = &payload[fields.position()..];
                *section = fields.take(length)?;
            }
        }
        Ok(Self(sections, tails))
    }
}
