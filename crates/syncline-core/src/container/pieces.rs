//! Checksums of the pieces of a record, with which a part of it is checked without the rest
//! (`docs/FORMAT.md`, "Pieces").

use std::hash::Hasher;
use std::ops::Range;

use twox_hash::XxHash3_64;

use super::ALIGNMENT;
use super::record::{CHECKSUM_AT, ChunkKind, RECORD_HEADER_LEN};
use super::sections::{SECTION_TABLE_LEN, section_lengths};
use crate::bits::fields::align;
use crate::error::{Error, Result};

/// Bytes of a piece. The last one before the checksums, and the last one behind them, may be shorter.
pub const PIECE_LEN: usize = 4096;
/// Most bytes of the section of codes in a record without checksums of pieces: it is read as a whole.
pub const LONGEST_WITHOUT_PIECES: usize = 1 << 14;
/// Bytes of a checksum: the low half of a hash.
const CHECKSUM_LEN: usize = 4;
/// Bytes of a record from which it is known where its pieces are.
pub const RECORD_HEAD_LEN: usize = RECORD_HEADER_LEN + SECTION_TABLE_LEN;

/// Returns the section of the checksums of pieces in records of a kind; codes are in the section behind it.
const fn checksums_of(kind: ChunkKind) -> Option<usize> {
    match kind {
        ChunkKind::Quantized => Some(3),
        ChunkKind::Blocks => Some(4),
        _ => None,
    }
}

/// Where the pieces of a record are, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Start of the checksums.
    checksums_at: usize,
    /// Start of the codes.
    codes_at: usize,
    /// Bytes of the codes.
    codes_len: usize,
    /// End of the record.
    end: usize,
}

impl Pieces {
    /// Returns the pieces of a record of `len` bytes that starts with `head`; `None` if it has no checksums of them.
    ///
    /// # Errors
    /// [`Error::Truncated`] if `head` is too short; [`Error::Corrupt`] if the sections contradict the length.
    pub fn of_record(kind: ChunkKind, head: &[u8], len: usize, place: &str) -> Result<Option<Self>> {
        let Some(checksums) = checksums_of(kind) else { return Ok(None) };
        let lengths = section_lengths(head.get(RECORD_HEADER_LEN..).unwrap_or_default(), place)?;
        if lengths[checksums] == 0 {
            return Ok(None);
        }
        let found = Self::from_lengths(checksums, &lengths, len);
        let counted = found.filter(|pieces| pieces.count() * CHECKSUM_LEN == lengths[checksums]);
        counted.map(Some).ok_or_else(|| Error::corrupt(place, "the checksums of its pieces do not fit its length"))
    }

    fn from_lengths(checksums: usize, lengths: &[usize], len: usize) -> Option<Self> {
        let end_of = |sections: &[usize]| {
            let add = |at: usize, &length: &usize| at.checked_add(length)?.checked_next_multiple_of(ALIGNMENT);
            sections.iter().try_fold(RECORD_HEAD_LEN.next_multiple_of(ALIGNMENT), add)
        };
        let (checksums_at, codes_at) = (end_of(&lengths[..checksums])?, end_of(&lengths[..=checksums])?);
        let codes_len = lengths[checksums + 1];
        let fits = codes_at.checked_add(codes_len).is_some_and(|end| end <= len);
        fits.then_some(Self { checksums_at, codes_at, codes_len, end: len })
    }

    /// Returns the bytes of the section of codes.
    pub fn codes(&self) -> Range<usize> {
        self.codes_at..self.codes_at + self.codes_len
    }

    /// Returns the number of pieces.
    pub fn count(&self) -> usize {
        self.before() + (self.end - self.codes_at).div_ceil(PIECE_LEN)
    }

    /// Returns the number of pieces before the checksums.
    fn before(&self) -> usize {
        self.checksums_at.div_ceil(PIECE_LEN)
    }

    fn piece(&self, number: usize) -> Range<usize> {
        let (first, end) = match number.checked_sub(self.before()) {
            Some(number) => (self.codes_at + number * PIECE_LEN, self.end),
            None => (number * PIECE_LEN, self.checksums_at),
        };
        first..(first + PIECE_LEN).min(end)
    }

    /// Returns the numbers of the pieces that have a byte of a range.
    fn pieces_of(&self, range: &Range<usize>) -> Range<usize> {
        let number = |at: usize| match at.checked_sub(self.codes_at) {
            Some(behind) => self.before() + behind / PIECE_LEN,
            None => (at / PIECE_LEN).min(self.before()),
        };
        if range.is_empty() { 0..0 } else { number(range.start)..number(range.end - 1) + 1 }
    }

    /// Returns the bytes from the first to the last of the pieces that have a byte of a range.
    pub fn widened(&self, range: &Range<usize>) -> Range<usize> {
        let pieces = self.pieces_of(range);
        if pieces.is_empty() {
            return range.clone();
        }
        self.piece(pieces.start).start..self.piece(pieces.end - 1).end
    }

    /// Returns the checksum of a piece, which must be in the record.
    fn checksum(&self, number: usize, record: &[u8]) -> u32 {
        let piece = self.piece(number);
        let mut hash = XxHash3_64::new();
        if piece.start < CHECKSUM_AT {
            // The record's own checksum is not covered.
            hash.write(&record[piece.start..CHECKSUM_AT]);
            hash.write(&record[RECORD_HEADER_LEN..piece.end]);
        } else {
            hash.write(&record[piece]);
        }
        hash.finish() as u32
    }

    fn stored(&self, number: usize) -> Range<usize> {
        let at = self.checksums_at + number * CHECKSUM_LEN;
        at..at + CHECKSUM_LEN
    }

    /// Compares the checksums of the pieces that have a byte of a range. They and the checksums must be in the record.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a piece is damaged.
    ///
    /// # Panics
    /// The record is shorter than the range.
    pub fn verify(&self, record: &[u8], range: &Range<usize>, place: &str) -> Result<()> {
        let differs = |&number: &usize| record[self.stored(number)] != self.checksum(number, record).to_le_bytes();
        match self.pieces_of(range).find(differs) {
            Some(_) => Err(Error::corrupt(place, "the checksum of a part of it does not match")),
            None => Ok(()),
        }
    }
}

/// Makes room for the checksums in the record of a kind that starts at byte `start` of `out`, if its codes are long.
/// Returns the pieces, whose checksums are written when the rest of the record is complete.
pub(super) fn reserve(kind: ChunkKind, out: &mut Vec<u8>, start: usize) -> Option<Pieces> {
    let checksums = checksums_of(kind)?;
    let lengths = section_lengths(&out[start + RECORD_HEADER_LEN..], "a record").ok()?;
    if lengths[checksums + 1] <= LONGEST_WITHOUT_PIECES {
        return None;
    }
    align(out, ALIGNMENT);
    let end = out.len();
    let Pieces { checksums_at, codes_len, .. } = Pieces::from_lengths(checksums, &lengths, end - start)?;
    let count = checksums_at.div_ceil(PIECE_LEN) + (end - start - checksums_at).div_ceil(PIECE_LEN);
    let codes_at = (checksums_at + count * CHECKSUM_LEN).next_multiple_of(ALIGNMENT);
    out.resize(end + codes_at - checksums_at, 0);
    out.copy_within(start + checksums_at..end, start + codes_at);
    out[start + checksums_at..start + codes_at].fill(0);
    let entry = start + RECORD_HEADER_LEN + checksums * 4;
    out[entry..entry + 4].copy_from_slice(&((count * CHECKSUM_LEN) as u32).to_le_bytes());
    Some(Pieces { checksums_at, codes_at, codes_len, end: out.len() - start })
}

/// Writes the checksums of a record that is otherwise complete, except for its own checksum.
pub(super) fn write(record: &mut [u8], pieces: &Pieces) {
    for number in 0..pieces.count() {
        let checksum = pieces.checksum(number, record);
        record[pieces.stored(number)].copy_from_slice(&checksum.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RecordBuilder, SectionWriter, Sections, parse_record};
    use super::*;

    const KINDS: [ChunkKind; 2] = [ChunkKind::Quantized, ChunkKind::Blocks];

    /// Returns a record with sections of these lengths before the codes, and with the codes.
    fn record(kind: ChunkKind, lengths: [usize; 3], codes: usize) -> Vec<u8> {
        let mut out = vec![7; 32];
        let builder = RecordBuilder::begin(&mut out, kind, 5);
        let mut sections = SectionWriter::begin(&mut out);
        for length in lengths {
            sections.section(&mut out, |out| out.extend((0..length).map(|i| (i % 251) as u8)));
        }
        (3..=checksums_of(kind).unwrap()).for_each(|_| sections.skip());
        sections.section(&mut out, |out| out.extend((0..codes).map(|i| (i % 249) as u8)));
        builder.finish(&mut out);
        out.split_off(32)
    }

    #[test]
    fn every_byte_of_a_record_but_its_checksums_is_in_one_piece() {
        let lengths = [[0, 0, 0], [17, 5, 3], [5000, 4097, 1], [4096 - 80, 0, 0]];
        for (kind, lengths) in KINDS.into_iter().flat_map(|kind| lengths.map(|lengths| (kind, lengths))) {
            for codes in [LONGEST_WITHOUT_PIECES + 1, 3 * PIECE_LEN + LONGEST_WITHOUT_PIECES, 50_001] {
                let record = record(kind, lengths, codes);
                let pieces = Pieces::of_record(kind, &record, record.len(), "test").unwrap().unwrap();
                let covered: Vec<usize> = (0..pieces.count()).flat_map(|number| pieces.piece(number)).collect();
                let expected = (0..pieces.checksums_at).chain(pieces.codes_at..record.len());
                assert!(covered.iter().copied().eq(expected), "{lengths:?} {codes}");
                let (read, payload) = parse_record(&record, 5).unwrap();
                let section = Sections::parse(payload, "test").unwrap().0[checksums_of(kind).unwrap() + 1];
                assert_eq!((read, section.len()), (kind, codes));
                assert_eq!(section.as_ptr(), record[pieces.codes_at..].as_ptr());
                pieces.verify(&record, &(0..record.len()), "test").unwrap();
            }
        }
    }

    #[test]
    fn changed_bytes_are_found_in_their_own_piece_only() {
        let record = record(KINDS[0], [5000, 100, 0], 40_000);
        let pieces = Pieces::of_record(KINDS[0], &record, record.len(), "test").unwrap().unwrap();
        for at in [0, 23, 32, 4095, 4096, pieces.codes_at, pieces.codes_at + 4096, record.len() - 1] {
            let mut damaged = record.clone();
            damaged[at] ^= 1;
            for number in 0..pieces.count() {
                let piece = pieces.piece(number);
                let result = pieces.verify(&damaged, &(piece.start..piece.start + 1), "test");
                assert_eq!(result.is_err(), piece.contains(&at), "byte {at}, piece {number}");
            }
        }
        let widened = pieces.widened(&(pieces.codes_at + 4095..pieces.codes_at + 4097));
        assert_eq!(widened, pieces.codes_at..pieces.codes_at + 2 * PIECE_LEN);
    }

    #[test]
    fn short_records_have_no_checksums_of_pieces() {
        // Records of other kinds have no sections that are known here.
        assert_eq!(Pieces::of_record(ChunkKind::Raw, &[0; 36], 36, "test").unwrap(), None);
        for kind in KINDS {
            let short = record(kind, [17, 5, 3], LONGEST_WITHOUT_PIECES);
            assert_eq!(Pieces::of_record(kind, &short, short.len(), "test").unwrap(), None);
        }
    }

    #[test]
    fn lengths_that_contradict_each_other_are_errors() {
        let record = record(KINDS[0], [17, 5, 3], 40_000);
        for (at, value) in [(44, 3u32), (44, u32::MAX), (32, u32::MAX), (40, 1 << 20), (44, 4)] {
            let mut wrong = record.clone();
            wrong[at..at + 4].copy_from_slice(&value.to_le_bytes());
            assert!(Pieces::of_record(KINDS[0], &wrong, record.len(), "test").is_err(), "{at} {value}");
        }
        assert!(Pieces::of_record(KINDS[0], &record, record.len() - PIECE_LEN, "test").is_err());
        assert!(Pieces::of_record(KINDS[0], &record[..RECORD_HEAD_LEN - 1], record.len(), "test").is_err());
    }
}
