//! Measurements of Syncline: generators of fields like those in the papers, streams of codes and bytes, and other
//! projects' codecs in one form. This crate is not published.

/// Tests the code of the repository's README. Published crates do not contain that file; this one has a link to it.
#[cfg(doctest)]
#[doc = include_str!("../README-repository.md")]
struct Readme;

pub mod array;
pub mod bytes;
pub mod check;
pub mod clock;
pub mod codec;
pub mod codes;
pub mod cpu;
pub mod fields;
pub mod gpu;
pub mod lines;
pub mod nvcomp;
pub mod papers;
pub mod random;
pub mod record;
pub mod regions;
pub mod stages;
pub mod statistics;
pub mod tpch;
