//! Memory: output that need not be initialized first, scattered writes from several threads, huge pages, prefetching,
//! and what is kept from chunk to chunk.
//!
//! Most of the code here needs `unsafe`, so that the stages that use it do not.

pub mod copy;
pub mod huge_pages;
pub mod kept;
pub mod prefetch;
pub mod scatter;
pub mod uninit;
