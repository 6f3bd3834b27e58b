//! The runs of a unit in segments (`docs/FORMAT.md`, "Segments"): where only zeros or masks are to be expected, a flag
//! says whether there is anything else, and if there is not, no element is coded.

use super::activity::Contexts;
use super::event::{Event, EventCounts};
use super::lanes::{Decoder, MOST_LANES, NO_TABLE, SlotTables};
use super::symbol::code_of_mask;
use crate::simd::InstructionSet;

/// Elements of a segment.
pub const SEGMENT: usize = 32;
/// Most elements of a run.
pub const LONGEST_RUN: usize = 1 << 10;
const _: () = assert!(SEGMENT.is_multiple_of(MOST_LANES) && LONGEST_RUN.is_multiple_of(SEGMENT));

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
        let quiet = [Event::new(0, contexts.quiet), Event::new(code_of_mask(0), contexts.masked)];
        let (mut is_quiet, mut is_expected) = (true, true);
        for &event in segment {
            is_quiet &= event.context() == contexts.quiet || event.context() == contexts.masked;
            is_expected &= event == quiet[0] || event == quiet[1];
        }
        match (is_quiet, is_expected) {
            (false, _) => Self::Elements,
            (true, true) => Self::Flag,
            (true, false) => Self::Both,
        }
    }
}

/// Appends the events of a class of a unit, whose elements have the events `all`, to those that are coded, counts them,
/// and appends the ends of its runs.
pub fn append(
    all: &[Event],
    contexts: &Contexts,
    (events, ends, counts): (&mut Vec<Event>, &mut Vec<u32>, &mut EventCounts),
) {
    let first = events.len();
    let mut coded = [Coded::Elements; LONGEST_RUN / SEGMENT];
    for run in all.chunks(LONGEST_RUN) {
        let (segments, rest) = run.as_chunks::<SEGMENT>();
        for (coded, segment) in coded.iter_mut().zip(segments) {
            *coded = Coded::of(segment, contexts);
        }
        let flags = coded[..segments.len()].iter().filter(|&&coded| coded != Coded::Elements);
        let flag = |&coded: &Coded| Event::new(if coded == Coded::Both { code_of_mask(0) } else { 0 }, contexts.flag);
        events.extend(flags.map(flag));
        end(events, ends);
        for (segment, coded) in segments.iter().zip(coded) {
            match coded {
                Coded::Elements => events.extend_from_slice(segment),
                Coded::Flag => {}
                Coded::Both => events.extend(segment.iter().map(|event| match event.context() {
                    context if context == contexts.quiet => event.with_context(contexts.flagged),
                    _ => *event,
                })),
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

/// Memory for reading a run.
#[derive(Clone, Debug, Default)]
pub struct RunMemory {
    tables: Vec<u8>,
    codes: Vec<i32>,
}

/// Reads the codes of a class of a unit, whose elements have these contexts. Without a decoder, all events have symbol
/// 0. Codes may be other numbers than codes and masks if the words are damaged.
#[inline(always)]
pub fn read<I: InstructionSet>(
    isa: I,
    mut decoder: Option<&mut Decoder>,
    tables: &SlotTables,
    (all, contexts): (&[u8], &Contexts),
    codes: &mut [i32],
    memory: &mut RunMemory,
) {
    let of_contexts = &tables.of_contexts;
    let table_of = |context: u8| of_contexts[usize::from(context) % of_contexts.len()];
    memory.tables.resize(LONGEST_RUN + MOST_LANES, 0);
    memory.codes.resize(LONGEST_RUN + MOST_LANES, 0);
    let mut is_quiet = [false; LONGEST_RUN / SEGMENT];
    for (run, codes) in all.chunks(LONGEST_RUN).zip(codes.chunks_mut(LONGEST_RUN)) {
        let (segments, rest) = run.as_chunks::<SEGMENT>();
        let mut flags = 0;
        for (is_quiet, segment) in is_quiet.iter_mut().zip(segments) {
            let quiet = |&context: &u8| (context == contexts.quiet) | (context == contexts.masked);
            *is_quiet = segment.iter().fold(true, |all, context| all & quiet(context));
            flags += usize::from(*is_quiet);
        }
        let padded = |len: usize| len.next_multiple_of(MOST_LANES);
        let mut decode = |of_codes: &mut [u8], len: usize, codes: &mut [i32]| match &mut decoder {
            Some(decoder) => {
                of_codes[len..padded(len)].fill(NO_TABLE);
                decoder.run(isa, &of_codes[..padded(len)], tables, &mut codes[..padded(len)]);
            }
            None => codes[..len].fill(0),
        };
        let mut are_set = [false; LONGEST_RUN / SEGMENT];
        if flags > 0 {
            memory.tables[..flags].fill(table_of(contexts.flag));
            decode(&mut memory.tables, flags, &mut memory.codes);
            are_set.iter_mut().zip(&memory.codes[..flags]).for_each(|(set, &code)| *set = code != 0);
        }
        // The elements that are coded, one after the other.
        let (mut flag, mut len) = (0, 0);
        for (segment, is_quiet) in segments.iter().zip(&mut is_quiet) {
            let to = &mut memory.tables[len..len + SEGMENT];
            if *is_quiet {
                *is_quiet = !are_set[flag];
                flag += 1;
                if *is_quiet {
                    continue;
                }
                let flagged = |context: u8| if context == contexts.quiet { contexts.flagged } else { context };
                to.iter_mut().zip(segment).for_each(|(to, &context)| *to = table_of(flagged(context)));
            } else {
                to.iter_mut().zip(segment).for_each(|(to, &context)| *to = table_of(context));
            }
            len += SEGMENT;
        }
        memory.tables[len..].iter_mut().zip(rest).for_each(|(to, &context)| *to = table_of(context));
        len += rest.len();
        decode(&mut memory.tables, len, &mut memory.codes);
        let mut coded = memory.codes[..len].iter();
        let (whole, last) = codes.as_chunks_mut::<SEGMENT>();
        for ((codes, is_quiet), segment) in whole.iter_mut().zip(is_quiet).zip(segments) {
            if is_quiet {
                let expected = |context: u8| if context == contexts.masked { code_of_mask(0) } else { 0 };
                codes.iter_mut().zip(segment).for_each(|(code, &context)| *code = expected(context));
            } else {
                let (own, after) = coded.as_slice().split_at(SEGMENT);
                codes.copy_from_slice(own);
                coded = after.iter();
            }
        }
        last.copy_from_slice(coded.as_slice());
    }
}
