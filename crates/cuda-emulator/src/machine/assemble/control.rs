//! Translates instructions with which threads synchronize or exchange values.

use super::{Assembler, Frame, Made};
use crate::machine::opcodes;
use crate::machine::program::{Condition, Exchange, Operation, Reduction, Shuffle};
use crate::ptx::Operand;

/// Translates an instruction of this kind, or returns `None` for another one.
pub(super) fn operation<'a>(
    all: &Assembler<'a>,
    frame: &Frame<'a>,
    words: &[&str],
    operands: &'a [Operand],
) -> Option<Made> {
    Some(match words[0] {
        "exit" => Ok(Operation::Exit),
        "trap" | "brkpt" => Ok(Operation::Trap),
        // No operation: instructions take effect at once and in order, and kernels run one after another.
        "membar" | "fence" | "griddepcontrol" | "nanosleep" | "prefetch" | "prefetchu" => Ok(Operation::Nothing),
        "activemask" => match operands {
            [to] => frame.result(to).map(Operation::Active),
            _ => return None,
        },
        "bar" | "barrier" => barrier(all, frame, words, operands)?,
        "shfl" => shuffle(all, frame, words, operands)?,
        "vote" => vote(all, frame, words, operands)?,
        "redux" => reduce(all, frame, words, operands)?,
        "match" => same(all, frame, words, operands)?,
        _ => return None,
    })
}

fn barrier<'a>(all: &Assembler<'a>, frame: &Frame<'a>, words: &[&str], operands: &'a [Operand]) -> Option<Made> {
    let source = |operand: &Operand| all.source(frame, operand, 32);
    let plain = |number: &Operand, threads: Option<&Operand>| {
        let (number, threads) = (source(number)?, threads.map(source).transpose()?);
        Ok(Operation::Barrier { number, threads, reduction: None, aligned: is_aligned(words) })
    };
    Some(match (words, operands) {
        (["bar", "warp", "sync"], [members]) => source(members).map(Operation::Meet),
        (["barrier", "cluster", "arrive", ..], []) => Ok(Operation::ClusterArrive),
        (["barrier", "cluster", "wait", ..], []) => Ok(Operation::ClusterWait),
        (["bar" | "barrier", rest @ ..], [number]) if is_sync(rest) => plain(number, None),
        (["bar" | "barrier", rest @ ..], [number, threads]) if is_sync(rest) => plain(number, Some(threads)),
        (["bar" | "barrier", rest @ ..], [to, number, between @ .., predicate]) if rest.contains(&"red") => {
            reduction(all, frame, words, to, number, between.first(), predicate)
        }
        _ => return None,
    })
}

/// Returns whether all threads of a warp must execute the barrier instruction together.
fn is_aligned(words: &[&str]) -> bool {
    words[0] == "bar" || words.contains(&"aligned")
}

fn is_sync(words: &[&str]) -> bool {
    words.contains(&"sync")
}

fn reduction<'a>(
    all: &Assembler<'a>,
    frame: &Frame<'a>,
    words: &[&str],
    to: &Operand,
    number: &Operand,
    threads: Option<&Operand>,
    predicate: &Operand,
) -> Made {
    let reduction = if words.contains(&"popc") {
        Reduction::Count(frame.result(to)?)
    } else if words.contains(&"or") {
        Reduction::Any(frame.predicate(to)?)
    } else {
        Reduction::All(frame.predicate(to)?)
    };
    let threads = threads.map(|threads| all.source(frame, threads, 32)).transpose()?;
    let of = frame.operand_condition(predicate)?;
    let (number, reduction) = (all.source(frame, number, 32)?, Some((reduction, of)));
    Ok(Operation::Barrier { number, threads, reduction, aligned: is_aligned(words) })
}

fn shuffle<'a>(all: &Assembler<'a>, frame: &Frame<'a>, words: &[&str], operands: &'a [Operand]) -> Option<Made> {
    let way = match *words.get(2)? {
        "up" => Shuffle::Up,
        "down" => Shuffle::Down,
        "bfly" => Shuffle::Butterfly,
        "idx" => Shuffle::Index,
        _ => return None,
    };
    let [to, value, lane, clamp, members] = operands else { return None };
    let make = || {
        let (to, found) = match to {
            Operand::Pair(to, found) => {
                (frame.optional_result(to)?, Some(&**found).filter(|found| **found != Operand::Nothing))
            }
            to => (frame.optional_result(to)?, None),
        };
        let source = |operand: &Operand| all.source(frame, operand, 32);
        let found = found.map(|found| frame.predicate(found)).transpose()?;
        let what =
            Exchange::Shuffle { way, to, found, value: source(value)?, lane: source(lane)?, clamp: source(clamp)? };
        Ok(Operation::Among(source(members)?, Box::new(what)))
    };
    Some(make())
}

fn vote<'a>(all: &Assembler<'a>, frame: &Frame<'a>, words: &[&str], operands: &'a [Operand]) -> Option<Made> {
    let [to, of, members] = operands else { return None };
    let make = || {
        let of: Condition = frame.operand_condition(of)?;
        let voted = |any, uniform| Ok::<_, String>(Exchange::Vote { to: frame.predicate(to)?, any, uniform, of });
        let what = match words.get(2) {
            Some(&"ballot") => Exchange::Ballot { to: frame.result(to)?, of },
            Some(&"any") => voted(true, false)?,
            Some(&"all") => voted(false, false)?,
            Some(&"uni") => voted(false, true)?,
            _ => return Err("no such vote".to_owned()),
        };
        Ok(Operation::Among(all.source(frame, members, 32)?, Box::new(what)))
    };
    Some(make())
}

fn reduce<'a>(all: &Assembler<'a>, frame: &Frame<'a>, words: &[&str], operands: &'a [Operand]) -> Option<Made> {
    let ([_, _, name, kind], [to, value, members]) = (words, operands) else { return None };
    let by = opcodes::update(name, kind)?;
    let make = || {
        let what = Exchange::Reduce { to: frame.result(to)?, value: all.source(frame, value, 32)?, by };
        Ok(Operation::Among(all.source(frame, members, 32)?, Box::new(what)))
    };
    Some(make())
}

fn same<'a>(all: &Assembler<'a>, frame: &Frame<'a>, words: &[&str], operands: &'a [Operand]) -> Option<Made> {
    let (["match", "any", "sync", kind], [to, value, members]) = (words, operands) else { return None };
    let bits = if *kind == "b64" { 64 } else { 32 };
    let make = || {
        let what = Exchange::Match { to: frame.result(to)?, value: all.source(frame, value, bits)? };
        Ok(Operation::Among(all.source(frame, members, 32)?, Box::new(what)))
    };
    Some(make())
}
