//! Register allocation. Compilers use a new virtual register for each value, over ten thousand in a long kernel, of
//! which few are live at the same time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::program::{Condition, Exchange, Instruction, Operation, Program, Reduction, Source};

/// The live range of a register.
#[derive(Debug, Clone, Copy)]
struct Use {
    first: u32,
    last: u32,
    /// Whether all uses are in one basic block, and the first is an unconditional write.
    within: bool,
}

/// Lets registers of `program` that are not live at the same time share storage.
///
/// A register is live from its first to its last use, and throughout every loop that this range touches. Registers
/// whose uses are all in one basic block and start with an unconditional write are not extended to loops. Divergence of
/// lanes does not matter, because each lane has its own part of a register.
pub fn share(program: &mut Program) {
    let uses = uses(program);
    let loops = loops(&program.instructions);
    let mut ranges: Vec<(u32, u32, usize)> = Vec::new();
    for (register, one) in uses.iter().enumerate() {
        let Some(one) = one else { continue };
        let (first, last) =
            if one.within { (one.first, one.last) } else { extend_by_loops(one.first, one.last, &loops) };
        ranges.push((first, last, register));
    }
    ranges.sort_unstable();
    let mut places = vec![0; uses.len()];
    let (mut count, mut free) = (0, Vec::new());
    let mut taken: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new();
    for (first, last, register) in ranges {
        while let Some(&Reverse((end, place))) = taken.peek()
            && end < first
        {
            taken.pop();
            free.push(place);
        }
        let place = free.pop().unwrap_or_else(|| {
            count += 1;
            count - 1
        });
        places[register] = place;
        taken.push(Reverse((last, place)));
    }
    program.registers = count;
    for one in &mut program.instructions {
        one.operation.each_register(&mut |register, _| *register = places[*register as usize]);
    }
}

/// Returns the live range of each register, or `None` if it is not used.
fn uses(program: &mut Program) -> Vec<Option<Use>> {
    let stretches = stretches(&program.instructions);
    let mut uses: Vec<Option<Use>> = vec![None; program.registers as usize];
    for (place, one) in program.instructions.iter_mut().enumerate() {
        let here = place as u32;
        let always = one.guard == Condition::Constant(true);
        // An instruction reads its sources before it writes its results.
        for writes in [false, true] {
            one.operation.each_register(&mut |register, writing| {
                if writing != writes {
                    return;
                }
                let before = uses[*register as usize];
                let known = before.unwrap_or(Use { first: here, last: here, within: writing && always });
                let same = stretches[known.first as usize] == stretches[place];
                uses[*register as usize] = Some(Use { last: here, within: known.within && same, ..known });
            });
        }
    }
    uses
}

/// Returns the number of the basic block of each instruction.
fn stretches(instructions: &[Instruction]) -> Vec<u32> {
    let mut starts = vec![false; instructions.len() + 1];
    for (place, one) in instructions.iter().enumerate() {
        if let Operation::Jump(target) = one.operation {
            starts[target as usize] = true;
        }
        if matches!(one.operation, Operation::Jump(_) | Operation::Exit) {
            starts[place + 1] = true;
        }
    }
    let number = |number: &mut u32, start: &bool| {
        *number += u32::from(*start);
        Some(*number)
    };
    starts.iter().scan(0, number).collect()
}

/// Returns the range of instructions of each backward jump.
fn loops(instructions: &[Instruction]) -> Vec<(u32, u32)> {
    let back = |(place, one): (usize, &Instruction)| match one.operation {
        Operation::Jump(target) if target as usize <= place => Some((target, place as u32)),
        _ => None,
    };
    instructions.iter().enumerate().filter_map(back).collect()
}

/// Extends a range by all loops that it touches.
fn extend_by_loops(mut first: u32, mut last: u32, loops: &[(u32, u32)]) -> (u32, u32) {
    loop {
        let before = (first, last);
        for &(start, end) in loops {
            if start <= last && first <= end {
                (first, last) = (first.min(start), last.max(end));
            }
        }
        if before == (first, last) {
            return before;
        }
    }
}

impl Source {
    fn each_register(&mut self, visit: &mut impl FnMut(&mut u32, bool)) {
        if let Self::Register(register) = self {
            visit(register, false);
        }
    }
}

/// Calls `visit` with all registers that are read, then with those that are written.
fn all<'a>(
    sources: impl IntoIterator<Item = &'a mut Source>,
    results: impl IntoIterator<Item = &'a mut u32>,
    visit: &mut impl FnMut(&mut u32, bool),
) {
    sources.into_iter().for_each(|source| source.each_register(visit));
    results.into_iter().for_each(|result| visit(result, true));
}

impl Operation {
    /// Calls `visit` with each register, and whether it is written.
    fn each_register(&mut self, visit: &mut impl FnMut(&mut u32, bool)) {
        match self {
            Self::Map1(_, to, a) => all([a], [to], visit),
            Self::Map2(_, to, a, b) | Self::Select { to, a, b, .. } => all([a, b], [to], visit),
            Self::Map3(_, to, a, b, c) => all([a, b, c], [to], visit),
            Self::Map4(_, to, sources) => all(sources.iter_mut(), [to], visit),
            Self::Carry { to, sources, .. } => all(sources.iter_mut(), [to], visit),
            Self::Compare { a, b, .. } => all([a, b], [], visit),
            Self::Pack { to, from, .. } => all(from, [to], visit),
            Self::Unpack { to, from, .. } => all([from], to.iter_mut().flatten(), visit),
            Self::Load { to, address, .. } => all([&mut address.base], to.iter_mut().flatten(), visit),
            Self::Store { from, address, .. } => all(from.iter_mut().chain([&mut address.base]), [], visit),
            Self::Atomic { to, address, value, .. } => all([&mut address.base, value], to, visit),
            Self::Exchange { to, address, expected, value, .. } => all([&mut address.base, expected, value], to, visit),
            Self::Among(members, what) => {
                members.each_register(visit);
                what.each_register(visit);
            }
            Self::Meet(members) => members.each_register(visit),
            Self::Active(to) => visit(to, true),
            Self::Barrier { number, threads, reduction, .. } => {
                let count = reduction.as_mut().and_then(|(reduction, _)| match reduction {
                    Reduction::Count(to) => Some(to),
                    Reduction::Any(_) | Reduction::All(_) => None,
                });
                all([number].into_iter().chain(threads), count, visit);
            }
            Self::Map { to, address, rank } => all([address, rank], [to], visit),
            Self::Copy { to, from, bytes, .. } => all([&mut to.base, &mut from.base, bytes], [], visit),
            Self::Discard { address, .. } => address.base.each_register(visit),
            Self::Logic { .. } | Self::Jump(_) | Self::Exit | Self::Trap => {}
            Self::ClusterArrive | Self::ClusterWait => {}
            Self::Group { .. } | Self::Await { .. } | Self::Nothing => {}
        }
    }
}

impl Exchange {
    fn each_register(&mut self, visit: &mut impl FnMut(&mut u32, bool)) {
        match self {
            Self::Shuffle { to, value, lane, clamp, .. } => all([value, lane, clamp], to, visit),
            Self::Ballot { to, .. } => visit(to, true),
            Self::Vote { .. } => {}
            Self::Reduce { to, value, .. } | Self::Match { to, value } => all([value], [to], visit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALWAYS: Condition = Condition::Constant(true);

    fn copy(to: u32, from: u32) -> Operation {
        Operation::Map1(|a| *a, to, Source::Register(from))
    }

    fn shared(operations: Vec<Operation>, registers: u32) -> (u32, Vec<Vec<u32>>) {
        let instruction = |operation| Instruction { guard: ALWAYS, operation, line: (0, 0) };
        let mut program = Program {
            name: String::new(),
            instructions: operations.into_iter().map(instruction).collect(),
            registers,
            predicates: 0,
            local: 0,
            shared: 0,
            parameters: Vec::new(),
            most_threads: 32,
            cluster: None,
            files: std::sync::Arc::default(),
        };
        share(&mut program);
        let used = program.instructions.iter_mut().map(|one| {
            let mut used = Vec::new();
            one.operation.each_register(&mut |register, _| used.push(*register));
            used
        });
        let used = used.collect();
        (program.registers, used)
    }

    #[test]
    fn copies_in_a_chain_share_two_registers() {
        let chain = (0..9).map(|number| copy(number + 1, number)).collect();
        let (count, used) = shared(chain, 10);
        assert_eq!(count, 2);
        assert!(used.windows(2).all(|pair| pair[0][1] == pair[1][0]), "what is written is what is read next: {used:?}");
    }

    #[test]
    fn registers_used_in_a_loop_live_through_it() {
        // Register 0 is read in the loop. Register 3 is written in the loop's second basic block and read in its first
        // in the next iteration. Register 5 is used in one basic block only.
        let program = vec![
            Operation::Map1(|a| *a, 0, Source::Number(1)),
            copy(4, 3),
            Operation::Jump(4),
            Operation::Exit,
            copy(5, 0),
            copy(3, 5),
            Operation::Jump(1),
            copy(6, 4),
        ];
        let (count, used) = shared(program, 7);
        let [zero, four, three, five] = [used[0][0], used[1][1], used[1][0], used[4][1]];
        let mut apart = vec![zero, four, three, five];
        apart.sort_unstable();
        apart.dedup();
        assert_eq!((apart.len(), used[4][0], used[5][1], used[7][0]), (4, zero, three, four));
        assert_eq!(count, 4, "6 has the place of one whose loop has ended");
        assert_ne!(used[7][1], four, "which it is made of");
    }
}
