//! Translates instructions that compute values lane by lane.

use super::memory::bits;
use super::{Assembler, Frame, Made};
use crate::machine::opcodes;
use crate::machine::program::{Condition, Operation, Source, Special};
use crate::ptx::Operand;

/// Translates an instruction of this kind, or returns `None` for another one.
pub(super) fn operation<'a>(
    all: &Assembler<'a>,
    frame: &Frame<'a>,
    opcode: &str,
    words: &[&str],
    operands: &'a [Operand],
) -> Option<Made> {
    let kind = *words.last()?;
    Some(match (words, operands) {
        (["setp", relation, kind], [to, a, b]) => compare(all, frame, relation, kind, to, [a, b]),
        (["mov" | "not" | "and" | "or" | "xor", "pred"], [to, rest @ ..]) => logic(frame, words[0], to, rest),
        (["selp", _], [to, a, b, by]) => select(all, frame, kind, to, [a, b], by),
        (["mov", _], [Operand::Vector(to), from]) => unpack(all, frame, kind, to, from),
        (["mov", _], [to, Operand::Vector(from)]) => pack(all, frame, kind, to, from),
        (["mad", "lo", "cc", "u32" | "s32"], [to, sources @ ..]) => carry(all, frame, false, to, sources),
        (["madc", "hi", "u32"], [to, sources @ ..]) => carry(all, frame, true, to, sources),
        (["cvta", "shared", "u64"], [to, from]) => shared(all, frame, "add.s64", to, from),
        (["cvta", "to", "shared", "u64"], [to, from]) => shared(all, frame, "sub.s64", to, from),
        (["cvt", ..], [to, from]) => {
            let function = opcodes::convert(opcode)?;
            map1(all, frame, kind, to, from, function)
        }
        _ => return mapped(all, frame, opcode, kind, operands),
    })
}

/// Translates instructions that are in the tables of opcodes.
fn mapped<'a>(
    all: &Assembler<'a>,
    frame: &Frame<'a>,
    opcode: &str,
    kind: &str,
    operands: &'a [Operand],
) -> Option<Made> {
    match operands {
        [to, a] => opcodes::unary(opcode).map(|by| map1(all, frame, kind, to, a, by)),
        [to, a, b] => opcodes::binary(opcode).map(|by| {
            let [a, b] = sources(all, frame, kind, [a, b])?;
            Ok(Operation::Map2(by, frame.result(to)?, a, b))
        }),
        [to, a, b, c] => opcodes::ternary(opcode).map(|by| {
            let bits = bits(kind)?;
            // The addend of a widening multiplication has twice the bits of the factors.
            let added = if opcode.starts_with("mad.wide.") { 2 * bits } else { bits };
            let [a, b] = sources(all, frame, kind, [a, b])?;
            Ok(Operation::Map3(by, frame.result(to)?, a, b, all.source(frame, c, added)?))
        }),
        [to, a, b, c, d] => opcodes::quaternary(opcode).map(|by| {
            let all = sources(all, frame, kind, [a, b, c, d])?;
            Ok(Operation::Map4(by, frame.result(to)?, Box::new(all)))
        }),
        _ => None,
    }
}

fn sources<'a, const N: usize>(
    all: &Assembler<'a>,
    frame: &Frame<'a>,
    kind: &str,
    operands: [&'a Operand; N],
) -> Result<[Source; N], String> {
    let bits = bits(kind)?;
    let mut found = [Source::Number(0); N];
    for (found, operand) in found.iter_mut().zip(operands) {
        *found = all.source(frame, operand, bits)?;
    }
    Ok(found)
}

fn map1<'a>(
    all: &Assembler<'a>,
    frame: &Frame<'a>,
    kind: &str,
    to: &Operand,
    from: &'a Operand,
    by: crate::machine::program::Map1,
) -> Made {
    let [from] = sources(all, frame, kind, [from])?;
    Ok(Operation::Map1(by, frame.result(to)?, from))
}

fn compare<'a>(
    all: &Assembler<'a>,
    frame: &Frame<'a>,
    relation: &str,
    kind: &str,
    to: &Operand,
    operands: [&'a Operand; 2],
) -> Made {
    let by = opcodes::compare(relation, kind).ok_or("no such comparison")?;
    let optional_predicate = |operand: &Operand| match operand {
        Operand::Nothing => Ok(None),
        operand => frame.predicate(operand).map(Some),
    };
    let (to, opposite) = match to {
        Operand::Pair(to, opposite) => (optional_predicate(to)?, optional_predicate(opposite)?),
        to => (optional_predicate(to)?, None),
    };
    let [a, b] = sources(all, frame, kind, operands)?;
    Ok(Operation::Compare { by, to, opposite, a, b })
}

fn logic(frame: &Frame<'_>, name: &str, to: &Operand, operands: &[Operand]) -> Made {
    let by = opcodes::logic(name).ok_or("no such operation on predicates")?;
    let (a, b) = match operands {
        [a] => (frame.operand_condition(a)?, Condition::Constant(false)),
        [a, b] => (frame.operand_condition(a)?, frame.operand_condition(b)?),
        _ => return Err("another number of predicates".to_owned()),
    };
    Ok(Operation::Logic { by, to: frame.predicate(to)?, a, b })
}

fn select<'a>(
    all: &Assembler<'a>,
    frame: &Frame<'a>,
    kind: &str,
    to: &Operand,
    operands: [&'a Operand; 2],
    by: &Operand,
) -> Made {
    let [a, b] = sources(all, frame, kind, operands)?;
    Ok(Operation::Select { to: frame.result(to)?, a, b, by: frame.operand_condition(by)? })
}

fn unpack<'a>(all: &Assembler<'a>, frame: &Frame<'a>, kind: &str, to: &[Operand], from: &'a Operand) -> Made {
    let [from] = sources(all, frame, kind, [from])?;
    let to: Box<[_]> = to.iter().map(|to| frame.optional_result(to)).collect::<Result<_, _>>()?;
    Ok(Operation::Unpack { bits: bits(kind)? / to.len().max(1) as u32, to, from })
}

fn pack<'a>(all: &Assembler<'a>, frame: &Frame<'a>, kind: &str, to: &Operand, from: &'a [Operand]) -> Made {
    let bits = bits(kind)? / from.len().max(1) as u32;
    let from = from.iter().map(|from| all.source(frame, from, bits)).collect::<Result<_, _>>()?;
    Ok(Operation::Pack { to: frame.result(to)?, bits, from })
}

fn carry<'a>(all: &Assembler<'a>, frame: &Frame<'a>, high: bool, to: &Operand, operands: &'a [Operand]) -> Made {
    let [a, b, c] = operands else { return Err("another number of values".to_owned()) };
    let sources = Box::new(sources(all, frame, "u32", [a, b, c])?);
    Ok(Operation::Carry { high, to: frame.result(to)?, sources })
}

/// Translates a conversion between an address in shared memory and a generic address.
fn shared<'a>(all: &Assembler<'a>, frame: &Frame<'a>, opcode: &str, to: &Operand, from: &'a Operand) -> Made {
    let by = opcodes::binary(opcode).ok_or("no addition")?;
    let [from] = sources(all, frame, "u64", [from])?;
    Ok(Operation::Map2(by, frame.result(to)?, from, Source::Special(Special::SharedBase)))
}
