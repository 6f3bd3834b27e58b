use proptest::prelude::*;

use super::append::keep_coded_by_one;
use super::read::{bytes_of, gather_by_one, spread_by_one};
use super::*;
use crate::contexts::activity::KINDS;
use crate::contexts::bits::PackedWriter;
use crate::contexts::event::EventCounts;
use crate::contexts::lanes::{Decoder, Encoder, Events, ListEnd, NO_TABLE, SlotTables};
use crate::contexts::symbol::{CODE_LIMIT, MASKS, code_of_number};
use crate::contexts::table::Tables;
use crate::simd::{self, InstructionSet, Kernel};

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

/// Appends the events of classes.
struct AppendClasses<'a> {
    classes: &'a [Class],
    part: &'a mut PartEvents,
    counts: &'a mut EventCounts,
}

impl Kernel for AppendClasses<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, isa: I) {
        for (kind, all) in self.classes {
            self.part.append(isa, all, &Contexts::of_kind(*kind), self.counts);
        }
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

/// Returns the events of classes, and how often each occurs.
fn part_of(classes: &[Class]) -> (PartEvents, EventCounts) {
    let (mut part, mut counts) = (PartEvents::default(), EventCounts::default());
    simd::run(AppendClasses { classes, part: &mut part, counts: &mut counts });
    (part, counts)
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
        let (part, counts) = part_of(&classes);
        let mut counts = counts.of_contexts();
        if shares_tables {
            // As few tables as there can be: contexts of quiet elements have that of others.
            let sum = std::array::from_fn(|symbol| counts.iter().map(|counts| counts[symbol]).sum());
            *counts = [[0; _]; _];
            counts[0] = sum;
        }
        let (tables, _) = Tables::build(&counts, &mut PackedWriter::default());
        let mut encoder = Encoder::new(&tables);
        let of_unit = |unit| {
            let mut words = Vec::new();
            encoder.encode(part.of_unit([unit, 1 << units_log2]), 1 << lanes_log2, &mut words);
            words
        };
        let words: Vec<Vec<u8>> = (0..1 << units_log2).map(of_unit).collect();
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
        let (_, counts) = part_of(&classes);
        let tables = SlotTables::new(&Tables::build(&counts.of_contexts(), &mut PackedWriter::default()).0);
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
fn vectors_do_what_single_elements_do() {
    let Some(token) = crate::simd::Avx2::detected() else { return };
    let contexts = Contexts::of_kind(1);
    let [quiet, masked, found] = [contexts.quiet(), contexts.masked(), contexts.found];
    let (kept, from) = ([Event::NONE; SEGMENT + ROOM], std::array::from_fn(|i| i as i32 + 1));
    for (words, seed) in [(0, 1), (1, 2), (7, 3), (WORDS, 4), (WORDS, 5)] {
        let mut random = seed;
        let mut next = || {
            random = u32::wrapping_mul(random, 1_664_525).wrapping_add(1_013_904_223);
            random >> 8
        };
        let mut all = vec![[quiet; WORD]; words];
        for byte in all.as_flattened_mut() {
            *byte = [quiet, masked, quiet + 1, found][next() as usize % 4];
        }
        let bits = avx2::bytes_of(token, &all, [quiet, masked]);
        assert_eq!(bits, bytes_of(&all, [quiet, masked]));
        // Words that are coded as a whole, in part, and not at all.
        let coded: Bits = std::array::from_fn(|word| [!bits[word], u32::MAX, 0, next() << 9][word % 4]);
        let (mut vectors, mut single) = ([9; SEGMENT + ROOM], [9; SEGMENT + ROOM]);
        let count = avx2::gather(token, &all, [quiet, found], &coded, &mut vectors);
        assert_eq!(count, gather_by_one(&all, [quiet, found], &coded, &mut single));
        assert_eq!(vectors[..count], single[..count]);
        let (mut vectors, mut single) = (vec![7; words * WORD], vec![8; words * WORD]);
        avx2::spread(token, &all, masked, &coded, &from, &mut vectors);
        spread_by_one(&all, &contexts, &coded, &from, &mut single);
        assert_eq!(vectors, single);

        let code = |random: u32| [0, 0, code_of_mask(0), 3][random as usize % 4];
        let ragged = (words * WORD).saturating_sub(seed as usize);
        let events: Vec<_> =
            all.as_flattened()[..ragged].iter().map(|&context| Event::new(code(next()), context)).collect();
        let (mut vectors, mut single) = (kept, kept);
        let count = avx2::keep_coded(token, &events, &contexts, &mut vectors);
        assert_eq!(count, keep_coded_by_one(&events, &contexts, &mut single));
        assert_eq!(vectors[..count], single[..count]);
    }
}

/// Returns the events of a segment, and the end of each of its lists.
fn lists_of(all: &[Event], kind: usize) -> (Vec<Event>, Vec<u32>) {
    let (part, _) = part_of(&[(kind, all.to_vec())]);
    assert!(part.ends.iter().all(|list| list.segment == 0));
    (part.events, part.ends.iter().map(|list| list.end).collect())
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
    for (quiet, found, lists) in [(31, 0, 1), (31, 9, 1), (32, 4, 3), (32, 5, 2), (SEGMENT, 128, 3), (SEGMENT, 129, 2)]
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
    let (tables, _) = Tables::build(&counts.of_contexts(), &mut PackedWriter::default());
    let mut words = Vec::new();
    let ends = [1, 4, 5].map(|end| ListEnd { segment: 0, end });
    Encoder::new(&tables).encode(Events { events: &events, ends: &ends, unit: [0, 1] }, 1, &mut words);
    let tables = SlotTables::new(&tables);
    let classes = [(0, vec![Event::new(0, contexts.quiet()); SEGMENT])];
    let units = vec![Some(Decoder::new(&words, 1).unwrap())];
    let (codes, is_finished) = simd::run(ReadClasses { units, tables: &tables, classes: &classes });
    assert!(is_finished && (0..SEGMENT).all(|i| codes[i] == if i == 1000 { 5 } else { 0 }));
}
