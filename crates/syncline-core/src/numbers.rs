//! Lossless coding of numbers (`docs/FORMAT.md`, "Numbers"): elements to integers, and codes to bins with raw bits.
//!
//! [`number`] has the ways in which elements are made of integers, [`find`] proposes some for a sample. Prediction
//! turns these integers into codes. [`bins`] are intervals of codes; [`cells`] count codes and choose bins. Several
//! bins in a row are one symbol of a Huffman stream ([`tuples`]), and the place of a code in its bin is written as
//! [`raw_bits`].

pub mod bins;
pub mod cells;
pub mod find;
pub mod number;
pub mod raw_bits;
pub mod tuples;
