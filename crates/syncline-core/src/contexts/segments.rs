//! Runs of elements in segments (`docs/FORMAT.md`, "Segments"): where only zeros or masks are to be expected, a flag
//! says whether there is anything else, and if there is not, no element is coded.

#[cfg(target_arch = "x86_64")]
mod avx2;

use super::activity::Contexts;
use super::event::{Event, EventCounts};
use super::lanes::{Decoder, MOST_LANES, NO_TABLE, SlotTables};
use super::symbol::code_of_mask;
use crate::simd::InstructionSet;

/// Elements of a segment.
pub const SEGMENT: usize = 32;
/// Most elements of a run.
pub const LONGEST_RUN: usize = SEGMENT * SEGMENTS;
/// Most segments of a run: as many as there are bits that say something of each.
const SEGMENTS: usize = u32::BITS as usize;
const _: () = assert!(SEGMENT.is_multiple_of(MOST_LANES) && SEGMENTS.is_multiple_of(MOST_LANES));

/// What is coded of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coded {
    /// Its elements.
    Elements,
    /// A flag that is not set.
    Flag,
    /// A flag that is set, and its elements.
    Both,
}

impl Coded {
    #[inline(always)]
    fn of(segment: &[Event; SEGMENT], contexts: &Contexts) -> Self {
        let is_calm = |event: &Event| [contexts.quiet(), contexts.masked()].contains(&event.context());
        let expected = [Event::new(0, contexts.quiet()), Event::new(code_of_mask(0), contexts.masked())];
        match segment {
            // Mostly the first one tells.
            [first, ..] if !is_calm(first) => Self::Elements,
            _ if are_of(segment, expected) => Self::Flag,
            _ if segment.iter().all(is_calm) => Self::Both,
            _ => Self::Elements,
        }
    }
}

/// Returns whether each event of a segment is one of two.
#[inline(always)]
fn are_of(segment: &[Event; SEGMENT], [first, second]: [Event; 2]) -> bool {
    // Eight at a time, so that compilers make vectors of them.
    let mut others = [0; 8];
    for events in segment.as_chunks::<8>().0 {
        for (other, event) in others.iter_mut().zip(events) {
            *other |= (event.0 ^ first.0).min(event.0 ^ second.0);
        }
    }
    others == [0; 8]
}

/// Appends the events of a class of a unit, whose elements have the events `all`, to those that are coded, counts them,
/// and appends the ends of its lists.
#[inline(always)]
pub fn append(
    all: &[Event],
    contexts: &Contexts,
    (events, ends, counts): (&mut Vec<Event>, &mut Vec<u32>, &mut EventCounts),
) {
    let first = events.len();
    for run in all.chunks(LONGEST_RUN) {
        let (segments, rest) = run.as_chunks::<SEGMENT>();
        let mut coded = [Coded::Elements; SEGMENTS];
        // Not by a closure, which would not become instructions of the caller's instruction set.
        for (coded, segment) in coded.iter_mut().zip(segments) {
            *coded = Coded::of(segment, contexts);
        }
        if coded.iter().all(|&coded| coded == Coded::Elements) {
            events.extend_from_slice(run);
            end(events, ends);
            continue;
        }
        let flag = |is_set: bool| Event::new(if is_set { code_of_mask(0) } else { 0 }, contexts.flag);
        let flagged = coded.iter().filter(|&&coded| coded != Coded::Elements);
        events.extend(flagged.map(|&coded| flag(coded == Coded::Both)));
        end(events, ends);
        for (segment, coded) in segments.iter().zip(coded) {
            let at = events.len();
            if coded != Coded::Flag {
                events.extend_from_slice(segment);
            }
            if coded == Coded::Both {
                let quiet = events[at..].iter_mut().filter(|event| event.context() == contexts.quiet());
                quiet.for_each(|event| *event = event.with_context(contexts.flagged));
            }
        }
        events.extend_from_slice(rest);
        end(events, ends);
    }
    counts.count(&events[first..]);
}

/// Ends a list, unless it is empty.
fn end(events: &[Event], ends: &mut Vec<u32>) {
    let end = events.len() as u32;
    if ends.last().copied().unwrap_or(0) < end {
        ends.push(end);
    }
}

/// Reads the codes of a class of a unit by the numbers of the tables of its elements, which are of a kind whose
/// contexts have the tables `contexts`. All symbols are 0 without a decoder.
///
/// `of_codes` and `codes` are a multiple of [`SEGMENT`] long; behind the last element is [`NO_TABLE`].
///
/// # Panics
/// The lengths are others.
#[inline(always)]
pub fn read<I: InstructionSet>(
    isa: I,
    mut decoder: Option<&mut Decoder>,
    (tables, contexts): (&SlotTables, &Contexts),
    of_codes: &[u8],
    codes: &mut [i32],
) {
    assert!(of_codes.len() == codes.len() && codes.len().is_multiple_of(SEGMENT));
    let mut list = |of_codes: &[u8], codes: &mut [i32]| match &mut decoder {
        Some(decoder) => decoder.list(isa, of_codes, tables, codes),
        None => codes.fill(0),
    };
    for (of_codes, codes) in of_codes.chunks(LONGEST_RUN).zip(codes.chunks_mut(LONGEST_RUN)) {
        let calm = calm_segments(isa, of_codes, contexts);
        if calm == 0 {
            list(of_codes, codes);
            continue;
        }
        let (mut of_flags, mut flags) = ([NO_TABLE; SEGMENTS], [0; SEGMENTS]);
        of_flags[..calm.count_ones() as usize].fill(contexts.flag);
        list(&of_flags, &mut flags);
        let (mut skipped, mut flags) = (0, flags.iter());
        for number in (0..SEGMENTS).filter(|number| calm >> number & 1 != 0) {
            let is_set = flags.next().is_some_and(|&flag| flag != 0);
            skipped |= u32::from(!is_set) << number;
        }
        let mut of_coded = [NO_TABLE; LONGEST_RUN];
        let len = gather(of_codes, (calm, skipped), contexts, &mut of_coded);
        list(&of_coded[..len], &mut codes[..len]);
        scatter(of_codes, skipped, contexts.masked(), codes, len);
    }
}

/// Returns a bit for each segment of a run: whether all of its contexts are calm.
#[inline(always)]
fn calm_segments<I: InstructionSet>(isa: I, of_codes: &[u8], contexts: &Contexts) -> u32 {
    let (segments, _) = of_codes.as_chunks::<SEGMENT>();
    let calm = [contexts.quiet(), contexts.masked()];
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx2() {
        return avx2::segments_of(token, segments, calm);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = isa;
    segments_of(segments, calm)
}

/// Returns a bit for each of up to 32 segments: whether each of its bytes is one of two.
fn segments_of(segments: &[[u8; SEGMENT]], bytes: [u8; 2]) -> u32 {
    let are_all = |segment: &[u8; SEGMENT]| segment.iter().all(|byte| bytes.contains(byte));
    segments.iter().rev().fold(0, |found, segment| found << 1 | u32::from(are_all(segment)))
}

/// Gathers the tables of the elements of the segments of a run that are not skipped. Returns how many elements these
/// are.
#[inline(always)]
fn gather(of_codes: &[u8], (calm, skipped): (u32, u32), contexts: &Contexts, out: &mut [u8; LONGEST_RUN]) -> usize {
    let (segments, _) = of_codes.as_chunks::<SEGMENT>();
    let (out, _) = out.as_chunks_mut::<SEGMENT>();
    let mut count = 0;
    for (number, segment) in segments.iter().enumerate().filter(|(number, _)| skipped >> number & 1 == 0) {
        out[count] = *segment;
        if calm >> number & 1 != 0 {
            for context in &mut out[count] {
                *context = if *context == contexts.quiet() { contexts.flagged } else { *context };
            }
        }
        count += 1;
    }
    count * SEGMENT
}

/// Moves the first `len` codes of a run to the segments that are not skipped, and gives the others what is expected of
/// them.
#[inline(always)]
fn scatter(of_codes: &[u8], skipped: u32, masked: u8, codes: &mut [i32], len: usize) {
    let (segments, _) = of_codes.as_chunks::<SEGMENT>();
    let (codes, _) = codes.as_chunks_mut::<SEGMENT>();
    let mut left = len / SEGMENT;
    // The last first, so that none is overwritten before it is moved.
    for (number, segment) in segments.iter().enumerate().rev() {
        if skipped >> number & 1 == 0 {
            left -= 1;
            codes[number] = codes[left];
        } else {
            let of_mask = code_of_mask(0);
            codes[number].iter_mut().zip(segment).for_each(|(code, &context)| {
                *code = if context == masked { of_mask } else { 0 };
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::activity::KINDS;
    use super::super::bits::PackedWriter;
    use super::super::lanes::{Encoder, Events};
    use super::super::symbol::{CODE_LIMIT, MASKS};
    use super::super::table::Tables;
    use super::*;
    use crate::simd::{self, Kernel};

    /// The events of all elements of a class, which are of a kind.
    type Class = (usize, Vec<Event>);

    /// Reads the codes of classes. Returns them, and whether the decoder is finished.
    struct ReadClasses<'a, 'w> {
        decoder: Option<Decoder<'w>>,
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
                of_codes.resize(events.len().next_multiple_of(SEGMENT), NO_TABLE);
                let mut codes = vec![-1; of_codes.len()];
                let tables = (self.tables, &self.tables.of_kind(*kind));
                read(isa, self.decoder.as_mut(), tables, &of_codes, &mut codes);
                all.extend_from_slice(&codes[..events.len()]);
            }
            (all, self.decoder.is_none_or(|decoder| decoder.is_finished()))
        }
    }

    /// Returns the events of a class: pieces of up to 100 elements that are calm or not, with what is expected or not.
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
            let (calm, rare) = (next(4) > 0, [0, 3, 100][next(3) as usize]);
            for _ in 0..1 + next(100) {
                let is_mask = masks && next(3) == 0;
                let context = match (calm, is_mask) {
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
                let expected = if calm && is_mask { code_of_mask(0) } else { 0 };
                events.push(Event::new(if is_other { other } else { expected }, context));
            }
        }
        events.truncate(len);
        (kind, events)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(80))]
        #[test]
        fn codes_of_segments_are_read_as_appended(
            lens in prop::collection::vec(
                prop_oneof![0usize..100, 900usize..1200, Just(LONGEST_RUN), 0usize..6000],
                1..4,
            ),
            seed in any::<u32>(),
            (masks, noisy, shares_tables) in any::<(bool, bool, bool)>(),
            lanes_log2 in 0u32..6,
        ) {
            let classes: Vec<Class> =
                lens.iter().zip(seed..).map(|(&len, seed)| class(seed, len, masks, noisy)).collect();
            let (mut events, mut ends, mut counts) = (Vec::new(), Vec::new(), EventCounts::default());
            for (kind, all) in &classes {
                append(all, &Contexts::of_kind(*kind), (&mut events, &mut ends, &mut counts));
            }
            prop_assert_eq!(ends.last().copied().unwrap_or(0) as usize, events.len());
            let mut counts = counts.of_contexts();
            if shares_tables {
                // As few tables as there can be: calm contexts have that of others.
                let sum = std::array::from_fn(|symbol| counts.iter().map(|counts| counts[symbol]).sum());
                *counts = [[0; _]; _];
                counts[0] = sum;
            }
            let tables = Tables::build(&counts, &mut PackedWriter::default());
            let (lanes, mut words) = (1 << lanes_log2, Vec::new());
            Encoder::new(&tables).encode(Events { events: &events, ends: &ends }, lanes, &mut words);
            prop_assert!(noisy || masks || words.is_empty());
            let decoder = (!words.is_empty()).then(|| Decoder::new(&words, lanes).unwrap());
            let tables = SlotTables::new(&tables);
            let (codes, is_finished) = simd::run(ReadClasses { decoder, tables: &tables, classes: &classes });
            let expected = classes.iter().flat_map(|(_, events)| events.iter().map(|event| event.code()));
            prop_assert!(is_finished && codes.into_iter().eq(expected));
        }

        #[test]
        fn words_of_any_bytes_give_codes_and_masks(
            (seed, bytes) in (any::<u32>(), prop::collection::vec(any::<u8>(), 600)),
            lanes_log2 in 0u32..6,
        ) {
            let classes = [class(seed, 1500, true, true)];
            let mut counts = EventCounts::default();
            append(&classes[0].1, &Contexts::of_kind(classes[0].0), (&mut Vec::new(), &mut Vec::new(), &mut counts));
            let tables = SlotTables::new(&Tables::build(&counts.of_contexts(), &mut PackedWriter::default()));
            let mut bytes = bytes;
            let lanes = 1 << lanes_log2;
            bytes[..4 * lanes].iter_mut().skip(3).step_by(4).for_each(|highest| *highest |= 1);
            let decoder = Some(Decoder::new(&bytes, lanes).unwrap());
            let (codes, _) = simd::run(ReadClasses { decoder, tables: &tables, classes: &classes });
            let masks: Vec<i32> = (0..MASKS).map(code_of_mask).collect();
            prop_assert!(codes.iter().all(|code| code.unsigned_abs() < CODE_LIMIT || masks.contains(code)));
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn vectors_find_the_segments_that_bytes_do() {
        let Some(token) = crate::simd::Avx2::detected() else { return };
        let mut random = 1u32;
        for count in [0, 1, 7, 31, 32] {
            let mut segments = vec![[3; SEGMENT]; count];
            for segment in segments.iter_mut().skip(1) {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                segment[(random >> 8) as usize % SEGMENT] = 7;
                segment[(random >> 16) as usize % SEGMENT] += (random >> 24) as u8 % 2;
            }
            let found = avx2::segments_of(token, &segments, [3, 7]);
            assert_eq!(found, segments_of(&segments, [3, 7]));
            assert!(count < 7 || (found & 1 != 0 && found.count_ones() < count as u32));
        }
    }

    #[test]
    fn segments_without_surprise_have_one_event() {
        let contexts = Contexts::of_kind(2);
        let of = |masks: usize| {
            let quiet = std::iter::repeat_n(Event::new(0, contexts.quiet()), 2 * LONGEST_RUN - masks);
            quiet.chain(std::iter::repeat_n(Event::new(code_of_mask(0), contexts.masked()), masks)).collect()
        };
        for mut all in [0, 1, LONGEST_RUN, 2 * LONGEST_RUN].map(of) as [Vec<Event>; 4] {
            let events_of = |all: &[Event]| {
                let (mut events, mut ends) = (Vec::new(), Vec::new());
                append(all, &contexts, (&mut events, &mut ends, &mut EventCounts::default()));
                (events, ends)
            };
            let flag = Event::new(0, contexts.flag);
            assert_eq!(events_of(&all), (vec![flag; 2 * SEGMENTS], vec![SEGMENTS as u32, 2 * SEGMENTS as u32]));
            all[SEGMENT + 1] = all[SEGMENT + 1].with_context(contexts.quiet() + 1);
            assert_eq!(events_of(&all).1, [31, 63, 95]);
            all[3] = Event::new(-1, contexts.quiet());
            let (events, ends) = events_of(&all);
            assert_eq!((events[0], ends), (Event::new(code_of_mask(0), contexts.flag), vec![31, 95, 127]));
            assert_eq!(events[31 + 3], Event::new(-1, contexts.flagged));
        }
    }
}
