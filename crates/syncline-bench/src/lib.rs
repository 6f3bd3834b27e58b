//! syncline-bench.
