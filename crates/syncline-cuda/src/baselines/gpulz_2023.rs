//! The match search of GPULZ: Zhang, Tian, Di, Yu, Swany, Tao, Cappello, "GPULZ: Optimizing LZSS Lossless Compression
//! for Multi-byte Data on Modern GPUs", ICS 2023 (Section 3.3, kernel I; the tables of throughput over chunk, window,
//! and symbol size).
//!
//! Each thread compares its position with every position of the window, and one thread walks along the tokens. The
//! rule for the best match and the sections are those of Syncline's format, and laying out and moving tokens (kernels
//! II and III of the paper) are Syncline's own. [`Encoder`](crate::lzss::Encoder) launches
//! `kernels/baselines/gpulz_2023/encode.cu` if it is created with
//! [`Method::Gpulz2023`](crate::lzss::Method::Gpulz2023).

use crate::device::{Source, source};

pub(crate) const SOURCE: Source = source!("baselines/gpulz_2023/encode.cu");
pub(crate) const KERNEL: &str = "gpulz_2023_encode";
