//! Instruction sets: their detection, and running code that is compiled for the best one.
//!
//! Algorithms live in the modules of their stages. They use [`dispatch::run`] or `dispatched!` to run portable code
//! that is compiled for wider vectors, and the tokens of [`isa`] to call hand-written code for one instruction set.

pub mod dispatch;
pub mod float_to_int;
pub mod isa;

pub(crate) use dispatch::dispatched;
pub use dispatch::{Kernel, run};
pub use isa::{Avx2, Avx512, Avx512Vbmi2, InstructionSet, Isa, Portable, instruction_set_name};
