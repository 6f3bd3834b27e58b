//! The codes of the elements of a class to events.

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::{LEAST_QUIET, QUIET_FOR_FOUND, ROOM, SEGMENT, expected_events};
use crate::contexts::activity::Contexts;
use crate::contexts::event::{Event, EventCounts};
use crate::contexts::lanes::{Events, ListEnd};
use crate::contexts::symbol::{code_of_mask, code_of_number};
use crate::simd::InstructionSet;

/// The events of a part that are coded, and where each list of them ends.
#[derive(Debug, Default)]
pub struct PartEvents {
    pub(super) events: Vec<Event>,
    pub(super) ends: Vec<ListEnd>,
}

impl PartEvents {
    /// Forgets all events.
    pub fn clear(&mut self) {
        self.events.clear();
        self.ends.clear();
    }

    /// Returns the number of events.
    pub fn count(&self) -> usize {
        self.events.len()
    }

    /// Returns what belongs to a unit: its number, and how many units the part has.
    pub fn of_unit(&self, unit: [usize; 2]) -> Events<'_> {
        Events { events: &self.events, ends: &self.ends, unit }
    }

    /// Appends the events of a class, whose elements have the events `all`, and counts them.
    #[inline(always)]
    pub fn append<I: InstructionSet>(&mut self, isa: I, all: &[Event], contexts: &Contexts, counts: &mut EventCounts) {
        let first = self.events.len();
        for (number, segment) in (0..).zip(all.chunks(SEGMENT)) {
            self.append_segment(isa, (number, segment), contexts);
        }
        counts.count(&self.events[first..]);
    }

    /// Appends the events of the elements of a segment.
    #[inline(always)]
    fn append_segment<I: InstructionSet>(&mut self, isa: I, (number, segment): (u32, &[Event]), contexts: &Contexts) {
        let [zero, mask] = expected_events(contexts);
        let is_expected = |event: Event| event == zero || event == mask;
        let is_quiet = |event: Event| event.context() == zero.context() || event.context() == mask.context();
        let (mut quiet, mut expected) = (0, 0);
        for &event in segment {
            quiet += u32::from(is_quiet(event));
            expected += u32::from(is_expected(event));
        }
        let found = quiet - expected;
        if (quiet as usize) < LEAST_QUIET {
            return self.append_list(number, segment);
        }
        if found as usize * QUIET_FOR_FOUND > quiet as usize {
            self.append_list(number, &[Event::new(code_of_mask(0), contexts.count)]);
            return self.append_list(number, segment);
        }
        self.append_list(number, &[Event::new(code_of_number(found), contexts.count)]);
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
            self.end_list(number);
        }
        if (expected as usize) < segment.len() {
            let first = self.events.len();
            self.events.resize(first + segment.len() + ROOM, Event::NONE);
            let count = keep_coded(isa, segment, contexts, &mut self.events[first..]);
            self.events.truncate(first + count);
            self.end_list(number);
        }
    }

    #[inline(always)]
    fn append_list(&mut self, segment: u32, events: &[Event]) {
        self.events.extend_from_slice(events);
        self.end_list(segment);
    }

    fn end_list(&mut self, segment: u32) {
        self.ends.push(ListEnd { segment, end: self.events.len() as u32 });
    }
}

/// Writes the events of the elements that are not as expected, which have the context of found ones if they are quiet.
/// Returns how many they are.
#[inline(always)]
fn keep_coded<I: InstructionSet>(isa: I, segment: &[Event], contexts: &Contexts, out: &mut [Event]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx2() {
        return avx2::keep_coded(token, segment, contexts, out);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = isa;
    keep_coded_by_one(segment, contexts, out)
}

/// Does what [`keep_coded`] does, one event after another.
#[inline(always)]
pub(super) fn keep_coded_by_one(segment: &[Event], contexts: &Contexts, out: &mut [Event]) -> usize {
    let expected = expected_events(contexts);
    let mut count = 0;
    // Without a branch, which would be taken at random.
    for &event in segment {
        let is_quiet = event.context() == contexts.quiet();
        out[count] = if is_quiet { event.with_context(contexts.found) } else { event };
        count += usize::from(!expected.contains(&event));
    }
    count
}
