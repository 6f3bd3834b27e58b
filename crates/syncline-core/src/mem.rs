//! Memory: output that need not be initialized first, scattered writes from several threads, huge pages, prefetching.
//!
//! The code here needs `unsafe`, so that the stages that use it do not.

pub mod copy;
pub mod huge_pages;
pub mod prefetch;
pub mod scatter;
pub mod uninit;
