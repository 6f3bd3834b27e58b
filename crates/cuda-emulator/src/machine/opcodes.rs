//! The opcodes that compute each lane independently: tables from names to functions, one table for each number of
//! operands.

mod compare;
mod convert;
mod floats;
mod integers;

pub use compare::{compare, logic};
pub use convert::{convert, extend};

use super::program::{LANES, Lanes, Map1, Map2, Map3, Map4, Update};

/// Applies `f` to each lane's value.
fn each(a: &Lanes, f: impl Fn(u64) -> u64) -> Lanes {
    std::array::from_fn(|lane| f(a[lane]))
}

/// Applies `f` to each lane's two values.
fn each2(a: &Lanes, b: &Lanes, f: impl Fn(u64, u64) -> u64) -> Lanes {
    std::array::from_fn(|lane| f(a[lane], b[lane]))
}

/// Applies `f` to each lane's three values.
fn each3(a: &Lanes, b: &Lanes, c: &Lanes, f: impl Fn(u64, u64, u64) -> u64) -> Lanes {
    std::array::from_fn(|lane| f(a[lane], b[lane], c[lane]))
}

/// Applies `f` to each lane's four values.
fn each4(a: &Lanes, b: &Lanes, c: &Lanes, d: &Lanes, f: impl Fn(u64, u64, u64, u64) -> u64) -> Lanes {
    std::array::from_fn(|lane| f(a[lane], b[lane], c[lane], d[lane]))
}

/// Returns the mask of the lanes for which `f` is true.
fn which(a: &Lanes, b: &Lanes, f: impl Fn(u64, u64) -> bool) -> u32 {
    (0..LANES).fold(0, |mask, lane| mask | u32::from(f(a[lane], b[lane])) << lane)
}

/// Creates a table of functions by opcode, which are applied lane by lane.
macro_rules! table {
    ($opcode:expr; $each:ident; $($($name:literal)|+ => |$($argument:ident),+| $value:expr,)*) => {
        Some(match $opcode {
            $($($name)|+ => |$($argument: &Lanes),+| $each($($argument),+, |$($argument),+| $value),)*
            _ => return None,
        })
    };
}
use table;

/// Returns the operation of an opcode with one operand.
pub fn unary(opcode: &str) -> Option<Map1> {
    integers::unary(opcode).or_else(|| floats::unary(opcode))
}

/// Returns the operation of an opcode with two operands.
pub fn binary(opcode: &str) -> Option<Map2> {
    integers::binary(opcode).or_else(|| floats::binary(opcode))
}

/// Returns the operation of an opcode with three operands.
pub fn ternary(opcode: &str) -> Option<Map3> {
    integers::ternary(opcode).or_else(|| floats::ternary(opcode))
}

/// Returns the operation of an opcode with four operands.
pub fn quaternary(opcode: &str) -> Option<Map4> {
    integers::quaternary(opcode)
}

/// Returns the operation of atomic instructions and reductions by its name and type, such as `add` and `u32`.
pub fn update(name: &str, kind: &str) -> Option<Update> {
    integers::update(name, kind).or_else(|| floats::update(name, kind))
}
