//! The published systems that Syncline is compared with, for tests and benchmarks (cargo feature `baselines`).
//!
//! Each module cites its paper and the sections and figures that it reproduces. All of them read and write Syncline's
//! streams, so that every result can be checked; where that makes them differ from the paper, the module says so.

pub mod cusz_2020;
pub mod gap_array_2020;
pub mod gap_array_2022;
pub mod gpulz_2023;
pub mod reduce_shuffle_merge_2021;
pub mod self_sync_2018;
pub mod self_sync_2022;
pub mod shared_memory_tuning_2022;

use crate::device::Specialization;

/// Returns every specialization of the baselines' kernels on a device with this many bytes of shared memory per block,
/// for the test that all of them compile.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    [
        cusz_2020::specializations(),
        gap_array_2020::specializations(),
        gpulz_2023::specializations(shared_memory),
        reduce_shuffle_merge_2021::specializations(shared_memory),
        shared_memory_tuning_2022::specializations(shared_memory),
    ]
    .concat()
}
