//! Events back to the codes of the elements of a class.

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::{Bits, LEAST_QUIET, MOST_FOUND, QUIET_FOR_FOUND, ROOM, SEGMENT, WORD, WORDS};
use crate::contexts::activity::Contexts;
use crate::contexts::lanes::{Decoder, MOST_LANES, NO_TABLE, SlotTables};
use crate::contexts::symbol::{code_of_mask, number_of_code};
use crate::simd::InstructionSet;

/// Reads the codes of a class by the numbers of the tables of its elements, which are of a kind whose contexts have the
/// tables `contexts`, from the units of its part. All symbols of a unit without a decoder are 0.
///
/// `of_codes` and `codes` are a multiple of [`MOST_LANES`] long; behind the last element is [`NO_TABLE`].
///
/// # Panics
/// The lengths are others, or there is no unit.
#[inline(always)]
pub fn read<I: InstructionSet>(
    isa: I,
    units: &mut [Option<Decoder>],
    (tables, contexts): (&SlotTables, &Contexts),
    of_codes: &[u8],
    codes: &mut [i32],
) {
    assert!(of_codes.len() == codes.len() && codes.len().is_multiple_of(MOST_LANES));
    let of_part = units.len();
    let mut memory = CodedElements { of_codes: [NO_TABLE; SEGMENT + ROOM], codes: [0; SEGMENT + ROOM] };
    for (number, (of_codes, codes)) in of_codes.chunks(SEGMENT).zip(codes.chunks_mut(SEGMENT)).enumerate() {
        let decoder = units[number % of_part].as_mut();
        let (of_words, _) = of_codes.as_chunks::<WORD>();
        let quiet = quiet_elements(isa, of_words, contexts);
        let count = quiet.iter().map(|word| word.count_ones() as usize).sum();
        let Some(decoder) = decoder else {
            match count {
                0..LEAST_QUIET => codes.fill(0),
                _ => spread_by_one(of_words, contexts, &[0; WORDS], &[], codes),
            }
            continue;
        };
        let found = if count < LEAST_QUIET { None } else { found(isa, decoder, (tables, contexts), (&quiet, count)) };
        let Some(found) = found else {
            decoder.list(isa, of_codes, tables, codes);
            continue;
        };
        let coded: Bits = std::array::from_fn(|word| !quiet[word] | found[word]);
        memory.read(isa, decoder, (tables, contexts), of_words, &coded);
        spread(isa, of_words, contexts, &coded, &memory.codes, codes);
    }
}

/// Returns which elements of a segment are quiet.
#[inline(always)]
fn quiet_elements<I: InstructionSet>(isa: I, of_codes: &[[u8; WORD]], contexts: &Contexts) -> Bits {
    let tables = [contexts.quiet(), contexts.masked()];
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx2() {
        return avx2::bytes_of(token, of_codes, tables);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = isa;
    bytes_of(of_codes, tables)
}

/// Returns which bytes are one of two.
pub(super) fn bytes_of(all: &[[u8; WORD]], bytes: [u8; 2]) -> Bits {
    let mut found = [0; WORDS];
    for (found, word) in found.iter_mut().zip(all) {
        *found = word.iter().rev().fold(0, |bits, byte| bits << 1 | u32::from(bytes.contains(byte)));
    }
    found
}

/// Reads which of the quiet elements, of which there are `count`, are found. `None` if the segment is plain.
#[inline(always)]
fn found<I: InstructionSet>(
    isa: I,
    decoder: &mut Decoder,
    (tables, contexts): (&SlotTables, &Contexts),
    (quiet, count): (&Bits, usize),
) -> Option<Bits> {
    let mut bits = [0; WORDS];
    let found = number_of_code(decoder.one(contexts.count, tables)) as usize;
    if found == 0 {
        return Some(bits);
    }
    if found * QUIET_FOR_FOUND > count {
        return None;
    }
    let (mut of_gaps, mut gaps) = ([NO_TABLE; MOST_FOUND], [0; MOST_FOUND]);
    of_gaps[..found].fill(contexts.of_gaps(count, found));
    let padded = found.next_multiple_of(MOST_LANES);
    decoder.list(isa, &of_gaps[..padded], tables, &mut gaps[..padded]);
    // The next quiet element, and how many are in the words before that of the last one found.
    let (mut next, mut before, mut word) = (0, 0, 0);
    for &gap in &gaps[..found] {
        next += number_of_code(gap) as usize;
        if next >= count {
            break;
        }
        while next - before >= quiet[word].count_ones() as usize {
            before += quiet[word].count_ones() as usize;
            word += 1;
        }
        bits[word] |= select(quiet[word], next - before);
        next += 1;
    }
    Some(bits)
}

/// Returns set bit `number`, counted from 0, of a word with more of them.
fn select(mut word: u32, number: usize) -> u32 {
    for _ in 0..number {
        word &= word - 1;
    }
    word & word.wrapping_neg()
}

/// The elements of a segment that are coded: their tables, and their codes.
struct CodedElements {
    of_codes: [u8; SEGMENT + ROOM],
    codes: [i32; SEGMENT + ROOM],
}

impl CodedElements {
    /// Reads the codes of the elements of a segment that are coded.
    #[inline(always)]
    fn read<I: InstructionSet>(
        &mut self,
        isa: I,
        decoder: &mut Decoder,
        (tables, contexts): (&SlotTables, &Contexts),
        of_codes: &[[u8; WORD]],
        coded: &Bits,
    ) {
        let count = gather(isa, of_codes, contexts, coded, &mut self.of_codes);
        let padded = count.next_multiple_of(MOST_LANES);
        self.of_codes[count..padded].fill(NO_TABLE);
        if count > 0 {
            decoder.list(isa, &self.of_codes[..padded], tables, &mut self.codes[..padded]);
        }
    }
}

/// Writes the tables of the elements that are coded: that of found ones in the place of that of quiet ones. Returns how
/// many they are.
#[inline(always)]
fn gather<I: InstructionSet>(
    isa: I,
    of_codes: &[[u8; WORD]],
    contexts: &Contexts,
    coded: &Bits,
    out: &mut [u8; SEGMENT + ROOM],
) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx2() {
        return avx2::gather(token, of_codes, [contexts.quiet(), contexts.found], coded, out);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = isa;
    gather_by_one(of_codes, [contexts.quiet(), contexts.found], coded, out)
}

/// Does what [`gather`] does, one element after another.
pub(super) fn gather_by_one(
    of_codes: &[[u8; WORD]],
    [quiet, found]: [u8; 2],
    coded: &Bits,
    out: &mut [u8; SEGMENT + ROOM],
) -> usize {
    let mut count = 0;
    for_each_coded(of_codes.len(), coded, |place| {
        let table = of_codes.as_flattened()[place];
        out[count] = if table == quiet { found } else { table };
        count += 1;
    });
    count
}

/// Writes the codes of the elements that are coded, and what is expected of the others.
#[inline(always)]
fn spread<I: InstructionSet>(
    isa: I,
    of_codes: &[[u8; WORD]],
    contexts: &Contexts,
    coded: &Bits,
    from: &[i32; SEGMENT + ROOM],
    codes: &mut [i32],
) {
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx2() {
        return avx2::spread(token, of_codes, contexts.masked(), coded, from, codes);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = isa;
    spread_by_one(of_codes, contexts, coded, from, codes);
}

/// Does what [`spread`] does, one element after another.
pub(super) fn spread_by_one(
    of_codes: &[[u8; WORD]],
    contexts: &Contexts,
    coded: &Bits,
    from: &[i32],
    codes: &mut [i32],
) {
    let (mask, masked) = (code_of_mask(0), contexts.masked());
    for (code, &table) in codes.iter_mut().zip(of_codes.as_flattened()) {
        *code = if table == masked { mask } else { 0 };
    }
    let mut from = from.iter();
    for_each_coded(of_codes.len(), coded, |place| codes[place] = from.next().copied().unwrap_or(0));
}

/// Calls `visit` with the place of each element of the first `words` words that is coded.
#[inline(always)]
fn for_each_coded(words: usize, coded: &Bits, mut visit: impl FnMut(usize)) {
    for (number, &word) in coded[..words].iter().enumerate() {
        let mut bits = word;
        while bits != 0 {
            visit(number * WORD + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
}
