//! The elements of a class in segments (`docs/FORMAT.md`, "Segments"): where only zeros or masks are to be expected, the
//! elements that are something else are counted and found by the gaps between them, and the others are not coded.

#[cfg(target_arch = "x86_64")]
mod avx2;

use super::activity::{Contexts, FIRST_GAP_OCTAVE, GAP_OCTAVES};
use super::event::{Event, EventCounts};
use super::lanes::{Decoder, Events, MOST_LANES, NO_TABLE, SlotTables};
use super::symbol::{code_of_mask, code_of_number, number_of_code};
use crate::simd::InstructionSet;

/// Most elements of a segment.
pub const SEGMENT: usize = 1024;
/// Segments with fewer quiet elements have no count.
pub const LEAST_QUIET: usize = 32;
/// At most one of so many quiet elements of a segment is found. Segments with more are plain.
pub const QUIET_FOR_FOUND: usize = 8;
/// Most elements that are found in a segment.
const MOST_FOUND: usize = SEGMENT / QUIET_FOR_FOUND;
const _: () = assert!(QUIET_FOR_FOUND == 1 << FIRST_GAP_OCTAVE && SEGMENT == QUIET_FOR_FOUND << (GAP_OCTAVES - 1));
/// Elements that have a bit each in a word.
const WORD: usize = u32::BITS as usize;
const WORDS: usize = SEGMENT / WORD;
const _: () = assert!(WORD == MOST_LANES && MOST_FOUND.is_multiple_of(MOST_LANES));

/// The events of a unit that are coded, and where each list of them ends.
#[derive(Debug, Default)]
pub struct UnitEvents {
    events: Vec<Event>,
    ends: Vec<u32>,
    lanes: usize,
}

impl UnitEvents {
    /// Begins a unit that is coded by so many states.
    pub fn begin(&mut self, lanes: usize) {
        self.events.clear();
        self.ends.clear();
        self.lanes = lanes;
    }

    /// Returns the events, and the number of states that they are coded by.
    pub fn get(&self) -> (Events<'_>, usize) {
        (Events { events: &self.events, ends: &self.ends }, self.lanes)
    }

    /// Appends the events of the elements of a segment.
    #[inline(always)]
    fn append(&mut self, segment: &[Event], contexts: &Contexts) {
        let [zero, mask] = [Event::new(0, contexts.quiet()), Event::new(code_of_mask(0), contexts.masked())];
        let is_expected = |event: Event| event == zero || event == mask;
        let is_quiet = |event: Event| event.context() == zero.context() || event.context() == mask.context();
        let (mut quiet, mut expected) = (0, 0);
        for &event in segment {
            quiet += u32::from(is_quiet(event));
            expected += u32::from(is_expected(event));
        }
        let found = quiet - expected;
        if (quiet as usize) < LEAST_QUIET {
            return self.append_list(segment);
        }
        if found as usize * QUIET_FOR_FOUND > quiet as usize {
            self.append_list(&[Event::new(code_of_mask(0), contexts.count)]);
            return self.append_list(segment);
        }
        self.append_list(&[Event::new(code_of_number(found), contexts.count)]);
        if found > 0 {
            let (mut gap, of_gaps) = (0, contexts.of_gaps(quiet as usize, found as usize));
            for &event in segment.iter().filter(|&&event| is_quiet(event)) {
                if is_expected(event) {
                    gap += 1;
                } else {
                    self.events.push(Event::new(code_of_number(gap), of_gaps));
                    gap = 0;
                }
            }
            self.end_list();
        }
        if (expected as usize) < segment.len() {
            let (mut at, first) = (0, self.events.len());
            self.events.resize(first + segment.len(), Event::NONE);
            let coded = &mut self.events[first..];
            // Without a branch, which would be taken at random.
            for &event in segment {
                let is_zero = event.context() == zero.context();
                coded[at] = if is_zero { event.with_context(contexts.found) } else { event };
                at += usize::from(!is_expected(event));
            }
            self.events.truncate(first + at);
            self.end_list();
        }
    }

    #[inline(always)]
    fn append_list(&mut self, events: &[Event]) {
        self.events.extend_from_slice(events);
        self.end_list();
    }

    fn end_list(&mut self) {
        self.ends.push(self.events.len() as u32);
    }
}

/// Appends the events of a class, whose elements have the events `all`, to those of the units of its part, and counts
/// them.
#[inline(always)]
pub fn append(all: &[Event], contexts: &Contexts, units: &mut [UnitEvents], counts: &mut EventCounts) {
    let of_part = units.len();
    for (number, segment) in all.chunks(SEGMENT).enumerate() {
        let unit = &mut units[number % of_part];
        let first = unit.events.len();
        unit.append(segment, contexts);
        counts.count(&unit.events[first..]);
    }
}

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
    let mut coded = Coded { count: 0, places: [0; SEGMENT], of_codes: [NO_TABLE; SEGMENT], codes: [0; SEGMENT] };
    for (number, (of_codes, codes)) in of_codes.chunks(SEGMENT).zip(codes.chunks_mut(SEGMENT)).enumerate() {
        let decoder = units[number % of_part].as_mut();
        let (of_words, _) = of_codes.as_chunks::<WORD>();
        let quiet = quiet_elements(isa, of_words, contexts);
        let count = quiet.iter().map(|word| word.count_ones() as usize).sum();
        let Some(decoder) = decoder else {
            match count {
                0..LEAST_QUIET => codes.fill(0),
                _ => expect(of_codes, contexts, codes),
            }
            continue;
        };
        let found = if count < LEAST_QUIET { None } else { found(isa, decoder, (tables, contexts), (&quiet, count)) };
        let Some(found) = found else {
            decoder.list(isa, of_codes, tables, codes);
            continue;
        };
        coded.gather(of_words, contexts, (&quiet, &found));
        expect(of_codes, contexts, codes);
        if coded.count > 0 {
            let padded = coded.count.next_multiple_of(MOST_LANES);
            coded.of_codes[coded.count..padded].fill(NO_TABLE);
            decoder.list(isa, &coded.of_codes[..padded], tables, &mut coded.codes[..padded]);
            coded.scatter(codes);
        }
    }
}

/// A bit for each element of a segment.
type Bits = [u32; WORDS];

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
fn bytes_of(all: &[[u8; WORD]], bytes: [u8; 2]) -> Bits {
    let mut found = [0; WORDS];
    for (found, word) in found.iter_mut().zip(all) {
        *found = word.iter().rev().fold(0, |bits, byte| bits << 1 | u32::from(bytes.contains(byte)));
    }
    found
}

/// Gives the elements what is expected of those that are quiet.
#[inline(always)]
fn expect(of_codes: &[u8], contexts: &Contexts, codes: &mut [i32]) {
    let (mask, masked) = (code_of_mask(0), contexts.masked());
    for (code, &table) in codes.iter_mut().zip(of_codes) {
        *code = if table == masked { mask } else { 0 };
    }
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

/// The elements of a segment that are coded: their places, their tables, and their codes.
struct Coded {
    count: usize,
    places: [u16; SEGMENT],
    of_codes: [u8; SEGMENT],
    codes: [i32; SEGMENT],
}

impl Coded {
    /// Takes the elements that are not quiet, and those that are found.
    #[inline(always)]
    fn gather(&mut self, of_codes: &[[u8; WORD]], contexts: &Contexts, (quiet, found): (&Bits, &Bits)) {
        self.count = 0;
        for (number, tables) in of_codes.iter().enumerate() {
            let mut bits = !quiet[number] | found[number];
            let first = number * WORD;
            while bits != 0 {
                let place = bits.trailing_zeros() as usize;
                let table = tables[place];
                self.places[self.count] = (first + place) as u16;
                self.of_codes[self.count] = if table == contexts.quiet() { contexts.found } else { table };
                self.count += 1;
                bits &= bits - 1;
            }
        }
    }

    /// Writes the codes to the places of their elements.
    #[inline(always)]
    fn scatter(&self, codes: &mut [i32]) {
        for (&place, &code) in self.places[..self.count].iter().zip(&self.codes) {
            codes[usize::from(place)] = code;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::activity::KINDS;
    use super::super::bits::PackedWriter;
    use super::super::lanes::Encoder;
    use super::super::symbol::{CODE_LIMIT, MASKS};
    use super::super::table::Tables;
    use super::*;
    use crate::simd::{self, Kernel};

    /// The events of all elements of a class, which are of a kind.
    type Class = (usize, Vec<Event>);

    /// Reads the codes of classes. Returns them, and whether all decoders are finished.
    struct ReadClasses<'a, 'w> {
        units: Vec<Option<Decoder<'w>>>,
        tables: &'a SlotTables,
        classes: &'a [Class],
    }

    impl Kernel for ReadClasses<'_, '_> {
        type Output = (Vec<i32>, bool);

        #[inline(always)]
        fn run<I: InstructionSet>(mut self, isa: I) -> Self::Output {
            let mut all = Vec::new();
            for (kind, events) in self.classes {
                let number_of = |event: &Event| self.tables.of_contexts[usize::from(event.context())];
                let mut of_codes: Vec<u8> = events.iter().map(number_of).collect();
                of_codes.resize(events.len().next_multiple_of(MOST_LANES), NO_TABLE);
                let mut codes = vec![-1; of_codes.len()];
                let tables = (self.tables, &self.tables.of_kind(*kind));
                read(isa, &mut self.units, tables, &of_codes, &mut codes);
                all.extend_from_slice(&codes[..events.len()]);
            }
            (all, self.units.iter().flatten().all(|decoder| decoder.is_finished()))
        }
    }

    /// Returns the events of a class: pieces of up to 400 elements that are quiet or not, with what is expected or not.
    fn class(seed: u32, len: usize, masks: bool, noisy: bool) -> Class {
        let mut random = seed;
        let mut next = |limit: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) % limit
        };
        let kind = next(KINDS as u32) as usize;
        let contexts = Contexts::of_kind(kind);
        let mut events = Vec::new();
        while events.len() < len {
            let (is_quiet, rare) = (next(4) > 0, [0, 3, 100][next(3) as usize]);
            for _ in 0..1 + next(400) {
                let is_mask = masks && next(3) == 0;
                let context = match (is_quiet, is_mask) {
                    (true, true) => contexts.masked(),
                    (true, false) => contexts.quiet(),
                    _ => contexts.quiet() + next(20) as u8,
                };
                let other = match next(8) {
                    0 if masks => code_of_mask(next(MASKS as u32) as usize),
                    1 => next(CODE_LIMIT) as i32,
                    _ => next(9) as i32 - 4,
                };
                let is_other = noisy && next(100) < rare;
                let expected = if is_quiet && is_mask { code_of_mask(0) } else { 0 };
                events.push(Event::new(if is_other { other } else { expected }, context));
            }
        }
        events.truncate(len);
        (kind, events)
    }

    /// Returns units with the events of classes, and how often each occurs.
    fn units_of(classes: &[Class], units: usize, lanes: usize) -> (Vec<UnitEvents>, EventCounts) {
        let mut of_part: Vec<UnitEvents> = (0..units).map(|_| UnitEvents::default()).collect();
        of_part.iter_mut().for_each(|unit| unit.begin(lanes));
        let mut counts = EventCounts::default();
        classes.iter().for_each(|(kind, all)| append(all, &Contexts::of_kind(*kind), &mut of_part, &mut counts));
        (of_part, counts)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(80))]
        #[test]
        fn codes_of_segments_are_read_as_appended(
            lens in prop::collection::vec(
                prop_oneof![0usize..100, 900usize..1200, Just(SEGMENT), 0usize..9000],
                1..4,
            ),
            seed in any::<u32>(),
            (masks, noisy, shares_tables) in any::<(bool, bool, bool)>(),
            lanes_log2 in 0u32..6,
            units_log2 in 0u32..4,
        ) {
            let classes: Vec<Class> =
                lens.iter().zip(seed..).map(|(&len, seed)| class(seed, len, masks, noisy)).collect();
            let (units, counts) = units_of(&classes, 1 << units_log2, 1 << lanes_log2);
            let mut counts = counts.of_contexts();
            if shares_tables {
                // As few tables as there can be: contexts of quiet elements have that of others.
                let sum = std::array::from_fn(|symbol| counts.iter().map(|counts| counts[symbol]).sum());
                *counts = [[0; _]; _];
                counts[0] = sum;
            }
            let tables = Tables::build(&counts, &mut PackedWriter::default());
            let mut encoder = Encoder::new(&tables);
            let words: Vec<Vec<u8>> = units.iter().map(|unit| {
                let ((events, lanes), mut words) = (unit.get(), Vec::new());
                encoder.encode(events, lanes, &mut words);
                words
            }).collect();
            prop_assert!(noisy || masks || words.iter().all(Vec::is_empty));
            let of_words = words.iter().map(|words| match words.is_empty() {
                true => None,
                false => Some(Decoder::new(words, 1 << lanes_log2).unwrap()),
            });
            let units = of_words.collect();
            let tables = SlotTables::new(&tables);
            let (codes, is_finished) = simd::run(ReadClasses { units, tables: &tables, classes: &classes });
            let expected = classes.iter().flat_map(|(_, events)| events.iter().map(|event| event.code()));
            prop_assert!(is_finished && codes.into_iter().eq(expected));
        }

        #[test]
        fn words_of_any_bytes_give_codes_and_masks(
            (seed, bytes) in (any::<u32>(), prop::collection::vec(any::<u8>(), 600)),
            lanes_log2 in 0u32..6,
        ) {
            let classes = [class(seed, 5000, true, true)];
            let (_, counts) = units_of(&classes, 1, 1);
            let tables = SlotTables::new(&Tables::build(&counts.of_contexts(), &mut PackedWriter::default()));
            let mut bytes = bytes;
            let lanes = 1 << lanes_log2;
            bytes[..4 * lanes].iter_mut().skip(3).step_by(4).for_each(|highest| *highest |= 1);
            let units = vec![Some(Decoder::new(&bytes, lanes).unwrap())];
            let (codes, _) = simd::run(ReadClasses { units, tables: &tables, classes: &classes });
            let masks: Vec<i32> = (0..MASKS).map(code_of_mask).collect();
            prop_assert!(codes.iter().all(|code| code.unsigned_abs() < CODE_LIMIT || masks.contains(code)));
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn vectors_find_the_elements_that_bytes_do() {
        let Some(token) = crate::simd::Avx2::detected() else { return };
        let mut random = 1u32;
        for count in [0, 1, 7, WORDS] {
            let mut all = vec![[3; WORD]; count];
            for byte in all.as_flattened_mut() {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte += [0, 4, 1, 200][(random >> 30) as usize];
            }
            let found = avx2::bytes_of(token, &all, [3, 7]);
            assert_eq!(found, bytes_of(&all, [3, 7]));
            assert!(found.iter().all(|word| word.count_ones() < 32));
        }
    }

    /// Returns the events of a segment, and the end of each of its lists.
    fn lists_of(all: &[Event], kind: usize) -> (Vec<Event>, Vec<u32>) {
        let (units, _) = units_of(&[(kind, all.to_vec())], 1, 1);
        (units[0].events.clone(), units[0].ends.clone())
    }

    #[test]
    fn quiet_segments_have_a_count_and_what_is_found() {
        let (kind, contexts) = (2, Contexts::of_kind(2));
        let number = |number, context| Event::new(code_of_number(number), context);
        let (zero, mask) = (Event::new(0, contexts.quiet()), Event::new(code_of_mask(0), contexts.masked()));
        let mut all: Vec<Event> = (0..SEGMENT).map(|i| if i % 3 == 0 { mask } else { zero }).collect();
        assert_eq!(lists_of(&all, kind), (vec![number(0, contexts.count)], vec![1]));
        // Not quiet; a code in the place of a mask; another code and another mask in the place of 0.
        all[5] = Event::new(0, contexts.quiet() + 1);
        all[9] = Event::new(0, contexts.masked());
        all[10] = Event::new(-7, contexts.quiet());
        all[13] = Event::new(code_of_mask(1), contexts.quiet());
        let gaps = [8, 0, 2].map(|gap| number(gap, contexts.of_gaps(SEGMENT - 1, 3)));
        let coded = [all[5], all[9], all[10].with_context(contexts.found), all[13].with_context(contexts.found)];
        assert_eq!(lists_of(&all, kind), ([&[number(3, contexts.count)][..], &gaps, &coded].concat(), vec![1, 4, 8]));
    }

    #[test]
    fn segments_with_many_codes_or_few_quiet_elements_are_plain() {
        let (kind, contexts) = (1, Contexts::of_kind(1));
        for (quiet, found, lists) in
            [(31, 0, 1), (31, 9, 1), (32, 4, 3), (32, 5, 2), (SEGMENT, 128, 3), (SEGMENT, 129, 2)]
        {
            let context = |i| if i < quiet { contexts.quiet() } else { contexts.quiet() + 3 };
            let all: Vec<Event> = (0..SEGMENT).map(|i| Event::new(i32::from(i < found), context(i))).collect();
            let (events, ends) = lists_of(&all, kind);
            assert_eq!(ends.len(), lists, "{quiet} {found}");
            let is_plain = lists < 3;
            assert_eq!(events[events.len() - SEGMENT.min(events.len())..] == all, is_plain);
            assert!(lists != 2 || events[0] == Event::new(code_of_mask(0), contexts.count));
        }
    }

    #[test]
    fn gaps_beyond_the_last_quiet_element_find_nothing() {
        let contexts = Contexts::of_kind(0);
        let number = |number, context| Event::new(code_of_number(number), context);
        let gap = |gap| number(gap, contexts.of_gaps(SEGMENT, 3));
        let events = [number(3, contexts.count), gap(1000), gap(23), gap(0), Event::new(5, contexts.found)];
        let mut counts = EventCounts::default();
        counts.count(&events);
        let tables = Tables::build(&counts.of_contexts(), &mut PackedWriter::default());
        let mut words = Vec::new();
        Encoder::new(&tables).encode(Events { events: &events, ends: &[1, 4, 5] }, 1, &mut words);
        let tables = SlotTables::new(&tables);
        let classes = [(0, vec![Event::new(0, contexts.quiet()); SEGMENT])];
        let units = vec![Some(Decoder::new(&words, 1).unwrap())];
        let (codes, is_finished) = simd::run(ReadClasses { units, tables: &tables, classes: &classes });
        assert!(is_finished && (0..SEGMENT).all(|i| codes[i] == if i == 1000 { 5 } else { 0 }));
    }
}
