//! Counts the symbols of groups of codes and estimates their bits in each mode: launchers of
//! `kernels/token_codes/statistics.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut};
use syncline_core::huffman::MAX_CLASSES;
use syncline_core::tokens::{GROUP_LEN, Mode};

use super::structs::{ChunkCodebooks, ModeBits, SymbolCounts, WideClass, WideSet};
use crate::device::{Device, Frame, Grid, fetch};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::huffman::codebook::COUNTS_STRIDE;
use crate::quantize::TileCodes;

declare_kernels! {
    /// The kernels of `kernels/token_codes/statistics.cu`.
    pub(super) struct StatisticsKernels in "token_codes/statistics.cu" {
        /// Threads of a block that classifies all groups of a stream.
        const CLASSIFY_THREADS: u32 = 1024;
        with THREADS = THREADS;
        with COUNTS_STRIDE = COUNTS_STRIDE;
        with WIDE_NO_ENTRY = WIDE_NO_ENTRY;
        fn token_codes_classify(groups: In<u32>, slots: u32, classes: Out<u8>, live_groups: Out<u32>);
        fn token_codes_count(codes: In<i32>, groups: In<u32>, slots: u32, classes: In<u8>, counts: Out<SymbolCounts>);
        fn token_codes_count_wide(
            codes: In<i32>, groups: In<u32>, slots: u32, classes: In<u8>, listed: In<WideClass>, counts: Out<u32>,
        );
        fn token_codes_estimate(counts: In<SymbolCounts>, estimates: Out<ModeBits>);
        fn token_codes_estimate_wide(counts: In<SymbolCounts>, wide_counts: In<u32>, sets: In<WideSet>, bits: Out<u64>);
        fn token_codes_sum(counts: In<SymbolCounts>, codebooks: In<ChunkCodebooks>, sums: Out<u32>);
    }
}

pub(super) const THREADS: u32 = 256;
/// Bins of activities, as in `kernels/token_codes/groups.cuh`.
const ACTIVITY_BINS: usize = 2 * 64 + 1;
/// The classes of a stream, and all of them together.
const SETS: usize = MAX_CLASSES + 1;
/// Groups that a warp counts, about. Fewer would take longer to add up the counts of blocks.
const GROUPS_OF_WARP: u32 = 16;
/// Classes that are counted in mode *wide* at the same time, which limits the memory to 64 MiB.
const MOST_WIDE_CLASSES: usize = 256;
/// The list entry of a class that is not counted in mode *wide*.
const WIDE_NO_ENTRY: u32 = u32::MAX;
const WIDE_ALPHABET: usize = Mode::Wide.alphabet();

impl ModeBits {
    /// Returns whether mode *wide* may be the best: where it has symbols for all codes, and *plain* has not.
    fn may_be_wide(&self) -> bool {
        self.outside > 0 && self.outside_wide == 0
    }

    /// Returns the mode with the fewest bits, the first of equals, and these bits. `wide` are those of mode *wide*, if
    /// it may be the best.
    fn best_mode(&self, wide: Option<u64>) -> (Mode, u64) {
        let [plain, runs] = self.bits;
        let plain = (self.outside == 0).then_some((Mode::Plain, plain));
        let modes = plain.into_iter().chain([(Mode::Runs, runs)]).chain(wide.map(|bits| (Mode::Wide, bits)));
        modes.min_by_key(|&(_, bits)| bits).unwrap_or((Mode::Runs, runs))
    }
}

/// The codebooks that a stream takes, and about how many bits all of it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamChoice {
    pub bits: u64,
    /// The mode of each codebook: one for all groups, or one for each class.
    pub modes: Vec<Mode>,
    /// For each codebook of mode *wide*, how often its symbols occur, if counts were asked for.
    pub wide_counts: Vec<Option<Vec<u32>>>,
}

/// What is known of the groups of some streams.
pub(crate) struct Measured<'a> {
    /// Class of each bin of activity of each stream.
    pub classes: CudaViewMut<'a, u8>,
    /// Counts of each class of each stream.
    pub counts: CudaViewMut<'a, SymbolCounts>,
    /// One per stream.
    pub choices: Vec<StreamChoice>,
}

/// Counts and estimates.
#[derive(Debug)]
pub(crate) struct Statistics {
    kernels: StatisticsKernels,
}

/// The classes of some streams that are counted in mode *wide* at the same time.
struct WideRound {
    classes: Vec<WideClass>,
    sets: Vec<WideSet>,
    /// The stream and the number of each set.
    places: Vec<(usize, usize)>,
}

impl Statistics {
    /// Loads the kernels for this device.
    pub fn new(device: &Device) -> Result<Self> {
        StatisticsKernels::load(device).map(|kernels| Self { kernels })
    }

    /// Classifies and counts the groups of each stream, and chooses its modes. Waits for the device. With
    /// `keeps_counts`, the counts of codebooks of mode *wide* are returned as well.
    pub fn measure<'a>(
        &self,
        frame: &mut Frame<'a>,
        tiles: &mut TileCodes<'_>,
        keeps_counts: bool,
    ) -> Result<Measured<'a>> {
        let stream = frame.stream().clone();
        let TileCodes { streams, slots, .. } = *tiles;
        let count = streams as usize;
        let groups = count * slots as usize;
        if tiles.groups.len() < groups || tiles.codes.len() < groups * GROUP_LEN {
            return Err(CudaError::invalid("the streams have fewer groups"));
        }
        let mut classes = frame.slice::<u8>(count * ACTIVITY_BINS)?;
        let mut live_groups = frame.slice::<u32>(count)?;
        let mut counts = frame.zeros::<SymbolCounts>(count * MAX_CLASSES)?;
        let mut estimates = frame.slice::<ModeBits>(count * SETS)?;

        // SAFETY: there are `slots` groups for each stream, as checked above, and room for its classes and its number
        // of live groups.
        unsafe {
            launch!(self.kernels.token_codes_classify on &stream, Grid::new(streams, CLASSIFY_THREADS); &tiles.groups,
                slots, &mut classes, &mut live_groups)
        }?;

        let shared = (MAX_CLASSES * size_of::<SymbolCounts>()) as u32;
        let grid =
            Grid::new(slots.div_ceil(THREADS / 32 * GROUPS_OF_WARP), THREADS).rows(streams).shared_memory(shared);
        // SAFETY: there are 256 codes for each group, as checked above, and counts for each class of each stream, which
        // are 0.
        unsafe {
            launch!(self.kernels.token_codes_count on &stream, grid; &tiles.codes, &tiles.groups, slots, &classes,
                &mut counts)
        }?;

        let grid = Grid::new(SETS as u32, THREADS).rows(streams);
        // SAFETY: the lengths allocated above.
        unsafe { launch!(self.kernels.token_codes_estimate on &stream, grid; &counts, &mut estimates) }?;

        let estimates = fetch(&stream, &estimates, "reading estimates")?;
        let live_groups = fetch(&stream, &live_groups, "reading numbers of groups")?;
        let (estimates, _) = estimates.as_chunks::<SETS>();
        let mut choices = vec![None; count];
        let mut first = 0;
        while first < count {
            let (end, round) = WideRound::new(estimates, first);
            let (bits, wide) = self.wide(frame, tiles, &classes.as_view(), &counts.as_view(), &round, keeps_counts)?;
            let mut wide_bits = vec![[None; SETS]; end - first];
            for (&(stream, set), &bits) in round.places.iter().zip(&bits) {
                wide_bits[stream - first][set] = Some(bits);
            }
            for number in first..end {
                let mut choice = choose(&estimates[number], &wide_bits[number - first], live_groups[number]);
                if keeps_counts {
                    round.fill(number, &mut choice, &wide, &counts, &stream)?;
                }
                choices[number] = Some(choice);
            }
            first = end;
        }
        Ok(Measured { classes, counts, choices: choices.into_iter().flatten().collect() })
    }

    /// Counts a round of classes in mode *wide*. Returns the bits of each set and, if wanted, the counts of each class.
    fn wide(
        &self,
        frame: &mut Frame<'_>,
        tiles: &mut TileCodes<'_>,
        classes: &CudaView<'_, u8>,
        counts: &CudaView<'_, SymbolCounts>,
        round: &WideRound,
        keeps_counts: bool,
    ) -> Result<(Vec<u64>, Vec<u32>)> {
        if round.classes.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let stream = frame.stream().clone();
        let mut frame = frame.nested();
        let (listed, sets) = (frame.upload(&round.classes)?, frame.upload(&round.sets)?);
        let (listed, sets) = (listed.as_view(), sets.as_view());
        let mut wide_counts = frame.zeros::<u32>(round.classes.len() * WIDE_ALPHABET)?;
        let mut bits = frame.slice::<u64>(round.sets.len())?;
        let slots = tiles.slots;
        let grid = Grid::new(slots.div_ceil(THREADS / 32 * GROUPS_OF_WARP), THREADS).rows(round.classes.len() as u32);
        // SAFETY: the listed streams exist, and there are counts of the whole alphabet for each listed class. Its codes
        // all have symbols in the mode, as the counts of those that have none say.
        unsafe {
            launch!(self.kernels.token_codes_count_wide on &stream, grid; &tiles.codes, &tiles.groups, slots, classes,
                &listed, &mut wide_counts)
        }?;
        // SAFETY: the sets are of streams that exist, and their entries are those of listed classes.
        unsafe {
            launch!(self.kernels.token_codes_estimate_wide on &stream, Grid::new(round.sets.len() as u32, THREADS);
                counts, &wide_counts, &sets, &mut bits)
        }?;
        let bits = fetch(&stream, &bits, "reading estimates")?;
        let wide = if keeps_counts { fetch(&stream, &wide_counts, "reading counts")? } else { Vec::new() };
        Ok((bits, wide))
    }
}

impl WideRound {
    /// Lists the classes and sets of streams from `first` on that may take mode *wide*, up to about
    /// [`MOST_WIDE_CLASSES`] classes. Also returns the end of these streams.
    fn new(estimates: &[[ModeBits; SETS]], first: usize) -> (usize, Self) {
        let mut round = Self { classes: Vec::new(), sets: Vec::new(), places: Vec::new() };
        let mut number = first;
        while number < estimates.len() && round.classes.len() < MOST_WIDE_CLASSES {
            let mut entries = [WIDE_NO_ENTRY; MAX_CLASSES];
            for (set, _) in estimates[number].iter().enumerate().filter(|(_, own)| own.may_be_wide()) {
                let classes = if set == MAX_CLASSES {
                    (1 << MAX_CLASSES) - 1
                } else {
                    entries[set] = round.classes.len() as u32;
                    round.classes.push(WideClass { stream: number as u32, number: set as u32 });
                    1 << set
                };
                round.sets.push(WideSet { stream: number as u32, classes, entries });
                round.places.push((number, set));
            }
            number += 1;
        }
        (number, round)
    }

    /// Fills in the counts of the codebooks of mode *wide* of a stream. `wide` has the counts of the listed classes.
    fn fill(
        &self,
        number: usize,
        choice: &mut StreamChoice,
        wide: &[u32],
        counts: &CudaViewMut<'_, SymbolCounts>,
        stream: &Arc<CudaStream>,
    ) -> Result<()> {
        let single = choice.modes.len() == 1;
        for (codebook, _) in choice.modes.iter().enumerate().filter(|(_, mode)| **mode == Mode::Wide) {
            let set = if single { MAX_CLASSES } else { codebook };
            let place = self.places.iter().position(|&place| place == (number, set));
            let place = place.ok_or_else(|| CudaError::invalid("a mode without counts"))?;
            let WideSet { classes, entries, .. } = self.sets[place];
            let mut sums = vec![0; WIDE_ALPHABET];
            for class in (0..MAX_CLASSES).filter(|class| classes >> class & 1 != 0) {
                if entries[class] == WIDE_NO_ENTRY {
                    let own = counts.slice(number * MAX_CLASSES + class..number * MAX_CLASSES + class + 1);
                    let own = fetch(stream, &own, "reading counts")?;
                    let first = (WIDE_ALPHABET - Mode::Plain.alphabet()) / 2;
                    sums[first..].iter_mut().zip(&own[0].plain).for_each(|(sum, count)| *sum += count);
                } else {
                    let own = &wide[entries[class] as usize * WIDE_ALPHABET..][..WIDE_ALPHABET];
                    sums.iter_mut().zip(own).for_each(|(sum, count)| *sum += count);
                }
            }
            choice.wide_counts[codebook] = Some(sums);
        }
        Ok(())
    }
}

/// Chooses one codebook or one for each class, and their modes.
fn choose(estimates: &[ModeBits; SETS], wide: &[Option<u64>; SETS], live_groups: u32) -> StreamChoice {
    let best = |set: usize| estimates[set].best_mode(wide[set]);
    let several: Vec<_> = (0..MAX_CLASSES).map(best).collect();
    let several_bits = several.iter().map(|(_, bits)| bits).sum::<u64>() + 2 * u64::from(live_groups);
    let (single, single_bits) = best(MAX_CLASSES);
    let (bits, modes) = match several_bits < single_bits {
        true => (several_bits, several.into_iter().map(|(mode, _)| mode).collect()),
        false => (single_bits, vec![single]),
    };
    StreamChoice { bits, wide_counts: vec![None; modes.len()], modes }
}
