//! What opcodes mean that work lane by lane: tables from their names to functions, one for each way to be called.

mod compare;
mod convert;
mod floats;
mod integers;

pub use compare::{compare, logic};
pub use convert::{convert, extend};

use super::program::{LANES, Lanes, Map1, Map2, Map3, Map4, Update};

/// `f` of each lane.
fn each(a: &Lanes, f: impl Fn(u64) -> u64) -> Lanes {
    std::array::from_fn(|lane| f(a[lane]))
}

/// `f` of each lane's two values.
fn each2(a: &Lanes, b: &Lanes, f: impl Fn(u64, u64) -> u64) -> Lanes {
    std::array::from_fn(|lane| f(a[lane], b[lane]))
}

/// `f` of each lane's three values.
fn each3(a: &Lanes, b: &Lanes, c: &Lanes, f: impl Fn(u64, u64, u64) -> u64) -> Lanes {
    std::array::from_fn(|lane| f(a[lane], b[lane], c[lane]))
}

/// `f` of each lane's four values.
fn each4(a: &Lanes, b: &Lanes, c: &Lanes, d: &Lanes, f: impl Fn(u64, u64, u64, u64) -> u64) -> Lanes {
    std::array::from_fn(|lane| f(a[lane], b[lane], c[lane], d[lane]))
}

/// For which lanes `f` holds.
fn which(a: &Lanes, b: &Lanes, f: impl Fn(u64, u64) -> bool) -> u32 {
    (0..LANES).fold(0, |mask, lane| mask | u32::from(f(a[lane], b[lane])) << lane)
}

/// A table: of the opcode, lane by lane.
macro_rules! table {
    ($opcode:expr; $each:ident; $($($name:literal)|+ => |$($argument:ident),+| $value:expr,)*) => {
        Some(match $opcode {
            $($($name)|+ => |$($argument: &Lanes),+| $each($($argument),+, |$($argument),+| $value),)*
            _ => return None,
        })
    };
}
use table;

/// What an opcode with one source does.
pub fn one(opcode: &str) -> Option<Map1> {
    integers::one(opcode).or_else(|| floats::one(opcode))
}

/// What an opcode with two sources does.
pub fn two(opcode: &str) -> Option<Map2> {
    integers::two(opcode).or_else(|| floats::two(opcode))
}

/// What an opcode with three sources does.
pub fn three(opcode: &str) -> Option<Map3> {
    integers::three(opcode).or_else(|| floats::three(opcode))
}

/// What an opcode with four sources does.
pub fn four(opcode: &str) -> Option<Map4> {
    integers::four(opcode)
}

/// What atomic operations and reductions do, from the name of the operation and the type, as `add` and `u32`.
pub fn update(name: &str, kind: &str) -> Option<Update> {
    integers::update(name, kind).or_else(|| floats::update(name, kind))
}
