//! The published systems that Syncline is compared with, and decoders and builders that Syncline tried in their place,
//! on an NVIDIA GPU and, where the papers have it, on the CPU: for tests and benchmarks, never in the product.
//!
//! Each module cites its paper and the sections and figures that it reproduces. All of them read and write Syncline's
//! streams, so that every result can be checked; where that makes them differ from the paper, the module says so.
//! [`decode`] and [`codebook`] have the improved forms: the published idea with what was learned since.
//!
//! Kernels are in `kernels/`. A device that runs them is opened with [`HEADERS`].

pub mod codebook;
pub mod cusz_2020;
pub mod cusz_gpulz_2023;
pub mod decode;
pub mod gap_array;
pub mod gap_array_2020;
pub mod gap_array_2022;
pub mod gpulz_2023;
mod headers;
pub mod reduce_shuffle_merge_2021;
pub mod self_sync_2018;
pub mod self_sync_2022;
pub mod shared_memory_tuning_2022;

pub use headers::HEADERS;

use syncline_cuda::device::Specialization;

/// Returns every specialization of these kernels on a device with this many bytes of shared memory per block, for the
/// test that all of them compile.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    [
        codebook::specializations(shared_memory),
        cusz_2020::specializations(),
        decode::specializations(),
        gap_array_2020::specializations(),
        gpulz_2023::specializations(shared_memory),
        reduce_shuffle_merge_2021::specializations(shared_memory),
        shared_memory_tuning_2022::specializations(shared_memory),
    ]
    .concat()
}
