//! Translates instructions that access memory.

use super::{Assembler, Frame, Made};
use crate::machine::opcodes;
use crate::machine::program::{Address, MOST_PARTS, Operation, Source, Space};
use crate::ptx::Operand;

/// Translates an instruction of this kind, or returns `None` for another one.
pub(super) fn operation<'a>(
    all: &Assembler<'a>,
    frame: &Frame<'a>,
    words: &[&str],
    operands: &'a [Operand],
) -> Option<Made> {
    Some(match (words, operands) {
        (["ld", .., kind], [to, from, ..]) => load(all, frame, words, kind, to, from),
        (["st", .., kind], [to, from, ..]) => store(all, frame, words, kind, to, from),
        (["atom", .., kind], [to, address, values @ ..]) => atomic(all, frame, words, kind, Some(to), address, values),
        (["red", .., kind], [address, values @ ..]) => atomic(all, frame, words, kind, None, address, values),
        (["cp", "async", "bulk", rest @ ..], _) if is_group(rest) => group(rest, operands, true),
        (["cp", "async", "bulk", "global", ..], [to, from, bytes, ..]) => copy(all, frame, [to, from], bytes, true),
        (["cp", "async", rest @ ..], _) if is_group(rest) => group(rest, operands, false),
        (["cp", "async", ..], [to, from, bytes]) => copy(all, frame, [to, from], bytes, false),
        (["createpolicy", ..], [to, ..]) => frame.result(to).map(|to| {
            // Cache policies have no effect.
            Operation::Map1(|a| *a, to, Source::Number(0))
        }),
        (["discard", ..], [address, bytes]) => discard(all, frame, address, bytes),
        (["mapa", "shared::cluster", "u32"], [to, address, rank]) => map(all, frame, to, address, rank),
        _ => return None,
    })
}

/// Returns whether an instruction commits or awaits groups of asynchronous copies.
fn is_group(words: &[&str]) -> bool {
    words.first().is_some_and(|word| word.starts_with("commit") || word.starts_with("wait"))
}

/// Translates committing and awaiting groups. Waiting until the sources have been read waits for the whole copies.
fn group(words: &[&str], operands: &[Operand], bulk: bool) -> Made {
    match (words, operands) {
        (["commit_group"], []) => Ok(Operation::Group { bulk }),
        (["wait_all"], []) => Ok(Operation::Await { bulk, but: None }),
        (["wait_group"] | ["wait_group", "read"], [Operand::Number(but)]) => {
            Ok(Operation::Await { bulk, but: Some(*but as u32) })
        }
        _ => Err("no such group of copies".to_owned()),
    }
}

/// Returns the state space that an opcode names.
fn space(words: &[&str]) -> Space {
    let named = |word: &&str| match *word {
        "global" | "const" => Some(Space::Global),
        "shared" | "shared::cta" => Some(Space::Shared),
        "shared::cluster" => Some(Space::Cluster),
        "local" => Some(Space::Local),
        "param" => Some(Space::Parameter),
        _ => None,
    };
    words.iter().find_map(named).unwrap_or(Space::Generic)
}

/// Returns the bits of a type.
pub(super) fn bits(kind: &str) -> Result<u32, String> {
    match kind.trim_start_matches(|c: char| c.is_ascii_alphabetic()) {
        "8" => Ok(8),
        "16" => Ok(16),
        "32" | "16x2" => Ok(32),
        "64" => Ok(64),
        _ => Err(format!("no length of type {kind}")),
    }
}

/// Returns the values that are loaded or stored together.
fn parts(operand: &Operand) -> Result<&[Operand], String> {
    match operand {
        Operand::Vector(parts) if parts.len() > MOST_PARTS => Err(format!("more than {MOST_PARTS} values")),
        Operand::Vector(parts) => Ok(parts),
        one => Ok(std::slice::from_ref(one)),
    }
}

fn load<'a>(
    all: &Assembler<'a>,
    frame: &Frame<'a>,
    words: &[&str],
    kind: &str,
    to: &'a Operand,
    from: &'a Operand,
) -> Made {
    let bits = bits(kind)?;
    let to = parts(to)?;
    // Registers may be wider than the loaded value, which is sign-extended if its type is signed.
    let extend = frame.width(to)?.and_then(|width| opcodes::extend(kind, width));
    let to = to.iter().map(|part| frame.optional_result(part)).collect::<Result<_, _>>()?;
    Ok(Operation::Load { to, bytes: bits / 8, extend, address: all.address(frame, from, space(words))? })
}

fn store<'a>(
    all: &Assembler<'a>,
    frame: &Frame<'a>,
    words: &[&str],
    kind: &str,
    to: &'a Operand,
    from: &'a Operand,
) -> Made {
    let bits = bits(kind)?;
    let from = parts(from)?.iter().map(|part| all.source(frame, part, bits)).collect::<Result<_, _>>()?;
    Ok(Operation::Store { from, bytes: bits / 8, address: all.address(frame, to, space(words))? })
}

fn atomic<'a>(
    all: &Assembler<'a>,
    frame: &Frame<'a>,
    words: &[&str],
    kind: &str,
    to: Option<&'a Operand>,
    address: &'a Operand,
    values: &'a [Operand],
) -> Made {
    const NAMES: [&str; 10] = ["add", "min", "max", "and", "or", "xor", "exch", "inc", "dec", "cas"];
    let bits = bits(kind)?;
    let name = words.iter().find(|word| NAMES.contains(word)).ok_or("no such atomic operation")?;
    let to = to.map(|to| frame.optional_result(to)).transpose()?.flatten();
    let address = all.address(frame, address, space(words))?;
    let source = |operand: &Operand| all.source(frame, operand, bits);
    match values {
        [expected, value] if *name == "cas" => {
            Ok(Operation::Exchange { to, bytes: bits / 8, address, expected: source(expected)?, value: source(value)? })
        }
        [value] => {
            let by = opcodes::update(name, kind).ok_or("no such atomic operation on this type")?;
            Ok(Operation::Atomic { to, by, bytes: bits / 8, address, value: source(value)? })
        }
        _ => Err("another number of values".to_owned()),
    }
}

/// Translates an asynchronous copy between device and shared memory.
fn copy<'a>(
    all: &Assembler<'a>,
    frame: &Frame<'a>,
    [to, from]: [&'a Operand; 2],
    bytes: &'a Operand,
    outward: bool,
) -> Made {
    let (there, here) = if outward { (Space::Global, Space::Shared) } else { (Space::Shared, Space::Global) };
    let [to, from]: [Address; 2] = [all.address(frame, to, there)?, all.address(frame, from, here)?];
    Ok(Operation::Copy { to, from, bytes: all.source(frame, bytes, 32)?, bulk: outward })
}

fn discard<'a>(all: &Assembler<'a>, frame: &Frame<'a>, address: &'a Operand, bytes: &Operand) -> Made {
    let Operand::Number(bytes) = bytes else { return Err("no length".to_owned()) };
    Ok(Operation::Discard { address: all.address(frame, address, Space::Global)?, bytes: *bytes as u32 })
}

fn map<'a>(all: &Assembler<'a>, frame: &Frame<'a>, to: &Operand, address: &Operand, rank: &Operand) -> Made {
    let source = |operand: &Operand| all.source(frame, operand, 32);
    Ok(Operation::Map { to: frame.result(to)?, address: source(address)?, rank: source(rank)? })
}
