//! One array of a copy: its chunks are compressed on several threads.

use std::ops::Range;

use rayon::prelude::*;
use syncline::{Bound, Effort, ElementType, Error, Fill};
use syncline_core::bound::{PieceBound, Scaling, Scan};
use syncline_zarrs::{FillSetting, SynclineConfiguration};
use zarrs::array::codec::{ShardingCodecOptions, SubchunkWriteOrder};
use zarrs::array::{Array, ArrayBytes, ArrayError, CodecOptions, CodecSpecificOptions, unravel_index};
use zarrs::config::global_config;
use zarrs::filesystem::FilesystemStore;

use super::permitted::Permitted;
use crate::args::ConvertArgs;
use crate::message::{Failure, Outcome};
use crate::places::zarr::{declared_fills, failed};

/// Bytes of chunks in memory where no limit is given.
const MEMORY: u64 = 1 << 30;

/// An error of the library, or a failure that is described.
enum Trouble {
    Error(Error),
    Failure(Failure),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// An array to compress.
pub struct Recompress<'a> {
    array: Array<FilesystemStore>,
    element: ElementType,
    args: &'a ConvertArgs,
    pool: &'a rayon::ThreadPool,
    /// Chunks, or shards, that are in memory together.
    at_a_time: u64,
    options: CodecOptions,
    shown: String,
}

impl<'a> Recompress<'a> {
    /// Prepares the work on an array, which is called `shown` in messages.
    pub fn new(
        mut array: Array<FilesystemStore>,
        element: ElementType,
        args: &'a ConvertArgs,
        pool: &'a rayon::ThreadPool,
        shown: String,
    ) -> Outcome<Self> {
        let first = array.chunk_shape(&vec![0; array.shape().len()]).map_err(|error| failed(&shown)(&error))?;
        let bytes = first.iter().fold(element.size() as u64, |bytes, extent| bytes.saturating_mul(extent.get()));
        let threads = pool.current_num_threads() as u64;
        // A chunk, its stream before and after, and what compression needs.
        let most = args.limits.memory_limit.unwrap_or(MEMORY) / bytes.saturating_mul(4);
        let at_a_time = most.clamp(1, 2 * threads);
        // The threads that are left compress the chunks of a shard.
        let within = (threads / at_a_time).max(1) as usize;
        let options = global_config().codec_options().with_concurrent_target(within);
        array.set_codec_options(options);
        Ok(Self { array, element, args, pool, at_a_time, options, shown })
    }

    /// Returns the settings of the codec for a bound, and the bound that holds for all chunks. `scaling` is how readers
    /// turn stored values into those that the bound refers to; `fill` are the values that mean missing data, if not
    /// those that the array declares.
    pub fn settings(
        &self,
        bound: Bound,
        scaling: Scaling,
        fill: Option<&[f64]>,
    ) -> Outcome<(SynclineConfiguration, f64)> {
        let mut fills = fill.map_or_else(|| declared_fills(&self.array, self.element), <[f64]>::to_vec);
        // Infinities are restored exactly in any case, and JSON has none.
        fills.retain(|value| value.is_finite());
        let ours = |error| Failure::of(&self.shown, error);
        let known = if fills.is_empty() && fill.is_none() { Fill::Auto } else { Fill::of(&fills).map_err(ours)? };
        let count = self.array.shape().iter().product();
        let resolved = PieceBound::resolve(self.element, count, bound, scaling, known, |scan| self.pass(scan));
        let PieceBound { bound, holds, fills } = resolved.map_err(|trouble| match trouble {
            Trouble::Error(error) => ours(error),
            Trouble::Failure(failure) => failure,
        })?;
        let is_lossless = bound == Bound::Lossless;
        let mut settings = SynclineConfiguration::new(bound);
        settings.effort = self.args.effort.effort().map(Effort::name).map(str::to_owned);
        settings.advanced = self.args.advanced.advanced()?.into();
        // A codec of a store is rewritable unless it says otherwise.
        settings.rewritable = self.args.rewritable || is_lossless;
        settings.fill = match fills.as_slice() {
            _ if is_lossless => None,
            // Each chunk detects its own.
            [] if fill.is_none() => None,
            [one] => Some(FillSetting::One(*one)),
            several => Some(FillSetting::Several(several.to_vec())),
        };
        Ok((settings, holds))
    }

    /// Adds all elements to a scan, one chunk after the other: their order does not matter.
    fn pass(&self, mut scan: Scan) -> Result<Scan, Trouble> {
        let mut done = 0;
        for batch in self.batches() {
            let read = || batch.into_par_iter().map(|number| self.inside(number)).collect::<Outcome<Vec<_>>>();
            for bytes in self.pool.install(read).map_err(Trouble::Failure)? {
                scan.add(done, &bytes);
                done += (bytes.len() / self.element.size()) as u64;
            }
        }
        Ok(scan)
    }

    /// Compresses all chunks that the store has.
    pub fn write(&self, mut to: Array<Permitted>) -> Outcome {
        // In order, so that the bytes do not depend on when threads end.
        let shards = ShardingCodecOptions::default().with_subchunk_write_order(SubchunkWriteOrder::C);
        to.set_codec_specific_options(&CodecSpecificOptions::default().with_option(shards));
        to.set_codec_options(self.options);
        for batch in self.batches() {
            self.pool.install(|| batch.into_par_iter().try_for_each(|number| self.copy(number, &to)))?;
        }
        Ok(())
    }

    fn copy(&self, number: u64, to: &Array<Permitted>) -> Outcome {
        let place = self.place(number);
        let bytes: Option<ArrayBytes<'_>> =
            self.array.retrieve_chunk_if_exists(&place).map_err(|error| failed(&self.shown)(&error))?;
        match bytes {
            Some(bytes) => to.store_chunk(&place, bytes).map_err(|error| match error {
                ArrayError::StorageError(error) => Failure::data(format!(
                    "{}: {error}: free some space, or name another output",
                    self.args.output.display()
                )),
                other => failed(&self.shown)(&other),
            }),
            None => Ok(()),
        }
    }

    /// Returns the elements of a chunk that are inside of the array.
    fn inside(&self, number: u64) -> Outcome<Vec<u8>> {
        let wrong = |error: &dyn std::fmt::Display| failed(&self.shown)(error);
        let region = self.array.chunk_subset_bounded(&self.place(number)).map_err(|error| wrong(&error))?;
        let bytes: ArrayBytes<'_> = self.array.retrieve_array_subset(&region).map_err(|error| wrong(&error))?;
        Ok(bytes.into_fixed().map_err(|error| wrong(&error))?.into_owned())
    }

    /// Returns the indices of a chunk by its number.
    fn place(&self, number: u64) -> Vec<u64> {
        unravel_index(number, self.array.chunk_grid_shape()).expect("there are more chunks than the number")
    }

    /// Returns the numbers of all chunks, by what is in memory together.
    fn batches(&self) -> impl Iterator<Item = Range<u64>> {
        let (count, most) = (self.array.chunk_grid_shape().iter().product::<u64>(), self.at_a_time);
        (0..count).step_by(most as usize).map(move |start| start..(start + most).min(count))
    }
}
