//! The codes of the elements of a class to events.

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::{LEAST_QUIET, QUIET_FOR_FOUND, ROOM, SEGMENT, expected_events};
use crate::contexts::activity::Contexts;
use crate::contexts::event::{Event, EventCounts};
use crate::contexts::lanes::Events;
use crate::contexts::symbol::{code_of_mask, code_of_number};
use crate::simd::InstructionSet;

/// The events of a unit that are coded, and where each list of them ends.
#[derive(Debug, Default)]
pub struct UnitEvents {
    pub(super) events: Vec<Event>,
    pub(super) ends: Vec<u32>,
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
    fn append<I: InstructionSet>(&mut self, isa: I, segment: &[Event], contexts: &Contexts) {
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
            let first = self.events.len();
            self.events.resize(first + segment.len() + ROOM, Event::NONE);
            let count = keep_coded(isa, segment, contexts, &mut self.events[first..]);
            self.events.truncate(first + count);
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

/// Appends the events of a class, whose elements have the events `all`, to those of the units of its part, and counts
/// them.
#[inline(always)]
pub fn append<I: InstructionSet>(
    isa: I,
    all: &[Event],
    contexts: &Contexts,
    units: &mut [UnitEvents],
    counts: &mut EventCounts,
) {
    let of_part = units.len();
    for (number, segment) in all.chunks(SEGMENT).enumerate() {
        let unit = &mut units[number % of_part];
        let first = unit.events.len();
        unit.append(isa, segment, contexts);
        counts.count(&unit.events[first..]);
    }
}
