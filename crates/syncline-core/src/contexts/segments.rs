//! The elements of a class in segments (`docs/FORMAT.md`, "Segments"): where only zeros or masks are to be expected,
//! the elements that are something else are counted and found by the gaps between them, and the others are not coded.

mod append;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod read;
#[cfg(test)]
mod tests;

pub use append::PartEvents;
pub use read::read;

use super::activity::{Contexts, FIRST_GAP_OCTAVE, GAP_OCTAVES};
use super::event::Event;
use super::lanes::MOST_LANES;
use super::symbol::code_of_mask;

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

/// What is written behind the last of the events or tables that are kept of a segment, because vectors are whole.
const ROOM: usize = 8;

/// A bit for each element of a segment.
type Bits = [u32; WORDS];

/// Returns the events of quiet elements that are as expected: code 0, or mask 0.
#[inline(always)]
fn expected_events(contexts: &Contexts) -> [Event; 2] {
    [Event::new(0, contexts.quiet()), Event::new(code_of_mask(0), contexts.masked())]
}
