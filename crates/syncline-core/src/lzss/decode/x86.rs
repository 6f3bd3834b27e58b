//! Decoding of levels 1 to 4 with AVX-512 VBMI2, 64 bytes at a time.

mod expand_distances;
mod lanes;
mod resolve_copies;

pub(super) use self::expand_distances::expand_distances;
pub(super) use self::resolve_copies::resolve_copies;
