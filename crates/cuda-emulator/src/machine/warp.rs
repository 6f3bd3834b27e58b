//! A warp: 32 threads, those at the same instruction done together.
//!
//! Of several places that lanes are at the first in the program is on, so that lanes that have taken different ways
//! come together where these meet. A group that goes round in a loop for long gives way to others: it may be waiting
//! for them. With a seed lanes at the same place need not go on together.

use super::copies::Copies;
use super::lanes::{lanes, mask_of};
use super::program::{ALL, Condition, Instruction, LANES, Lanes, Operation, Program, Side, Source, Special};
use super::surroundings::Surroundings;

/// Instructions of a group until another one of the same warp is on.
const PATIENCE: u32 = 512;

/// How far a warp has come in its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Some lanes could go on.
    Ready,
    /// All that are left wait for others.
    Waiting,
    /// None are left.
    Done,
}

/// Where the lanes of an instruction go from there.
pub(super) enum Flow {
    Next,
    Jump(u32),
    Exit,
    /// Lanes have been sent where they go one by one.
    Apart,
}

/// The state of a warp.
#[derive(Debug)]
pub struct Warp {
    /// Its number in the block.
    pub number: u32,
    pub(super) registers: Vec<Lanes>,
    pub(super) predicates: Vec<u32>,
    pub(super) carry: u32,
    /// The next instruction of each lane.
    pub(super) places: [u32; LANES],
    /// Lanes that have not ended.
    pub(super) alive: u32,
    /// Lanes that wait.
    pub(super) waiting: u32,
    /// Of these, for others of the warp: to tell each other something at the same instruction, or to meet.
    pub(super) exchanging: u32,
    pub(super) meeting: u32,
    /// Of these, for the cluster.
    pub(super) at_cluster: u32,
    /// Lanes that have said to the cluster that they are there, and not waited since.
    pub(super) said: u32,
    /// When lanes have last said so.
    pub(super) generations: [u32; LANES],
    /// Copies that have begun.
    pub(super) copies: Copies,
    /// Local memory, one lane's behind the other's.
    pub(super) local: Vec<u128>,
    /// Start and end of what device memory was last found in.
    pub(super) window: (u64, u64),
    /// Instructions done.
    pub(super) clock: u64,
    /// Lanes that have gone on alone for long.
    impatient: u32,
}

impl Warp {
    /// A warp for `program`, to be started.
    pub fn new(program: &Program) -> Self {
        Self {
            number: 0,
            registers: vec![[0; LANES]; program.registers as usize],
            predicates: vec![0; program.predicates as usize],
            carry: 0,
            places: [0; LANES],
            alive: 0,
            waiting: 0,
            exchanging: 0,
            meeting: 0,
            at_cluster: 0,
            said: 0,
            generations: [0; LANES],
            copies: Copies::default(),
            local: vec![u128::from_ne_bytes([crate::memory::POISON; 16]); LANES * program.local.div_ceil(16)],
            window: (0, 0),
            clock: 0,
            impatient: 0,
        }
    }

    /// Sets it to the start with so many lanes. Registers and local memory hold what they held: nobody may ask.
    pub fn start(&mut self, number: u32, lanes: u32) {
        self.number = number;
        self.alive = if lanes as usize >= LANES { ALL } else { (1 << lanes) - 1 };
        self.places = [0; LANES];
        (self.waiting, self.exchanging, self.meeting, self.at_cluster, self.impatient) = (0, 0, 0, 0, 0);
        (self.said, self.copies, self.window) = (0, Copies::default(), (0, 0));
    }

    /// Bytes from one lane's local memory to the next one's.
    pub(super) fn local_stride(program: &Program) -> u64 {
        program.local.next_multiple_of(16) as u64
    }

    /// Goes on for about `budget` instructions.
    ///
    /// # Errors
    /// What went wrong.
    pub fn run(&mut self, here: &mut Surroundings<'_>, mut budget: u32) -> Result<Progress, String> {
        while budget > 0 {
            let Some((place, group, others)) = self.pick() else {
                if self.alive == 0 {
                    return Ok(Progress::Done);
                }
                if !self.go_on_without_the_ended(here)? {
                    return Ok(Progress::Waiting);
                }
                continue;
            };
            let (some, turn) = here.order.some(group, budget);
            budget -= self.run_group(here, place, some, others, turn)?;
        }
        Ok(Progress::Ready)
    }

    /// The group to go on with, its place, and the first place of other lanes behind it.
    fn pick(&mut self) -> Option<(u32, u32, u32)> {
        let ready = self.alive & !self.waiting;
        if ready == 0 {
            return None;
        }
        if ready & !self.impatient == 0 {
            self.impatient = 0;
        }
        let among = ready & !self.impatient;
        let place = lanes(among).map(|lane| self.places[lane]).min()?;
        let group = mask_of(lanes(ready).filter(|&lane| self.places[lane] == place));
        let others = lanes(ready & !group)
            .map(|lane| self.places[lane])
            .filter(|&other| other > place)
            .min()
            .unwrap_or(u32::MAX);
        Some((place, group, others))
    }

    /// Goes on with a group until it comes apart, meets others, waits or has had its turn; instructions done.
    fn run_group(
        &mut self,
        here: &mut Surroundings<'_>,
        mut place: u32,
        group: u32,
        others: u32,
        budget: u32,
    ) -> Result<u32, String> {
        let program = here.program;
        let alone = self.alive & !self.waiting != group;
        let turn = if alone { budget.min(PATIENCE) } else { budget };
        for done in 1..=turn {
            let Some(instruction) = program.instructions.get(place as usize) else {
                return Err(format!("{} goes on behind its end", program.name));
            };
            let mask = group & self.decide(instruction.guard);
            self.clock += 1;
            if mask == 0 {
                place += 1;
            } else {
                let flow = self
                    .execute(instruction, place, mask, here)
                    .map_err(|error| self.report(error, place, mask, here))?;
                match flow {
                    Flow::Next => place += 1,
                    Flow::Jump(target) if mask == group => place = target,
                    Flow::Jump(target) => {
                        self.send(mask, target);
                        self.send(group & !mask, place + 1);
                        return Ok(done);
                    }
                    Flow::Exit => {
                        self.alive &= !mask;
                        let left = self.copies.all(mask);
                        self.finish(left);
                        self.send(group & !mask, place + 1);
                        here.ended(mask.count_ones(), self.counted_by_cluster(mask, here.cluster.generation));
                        return Ok(done);
                    }
                    Flow::Apart => {
                        self.send(group & !mask, place + 1);
                        return Ok(done);
                    }
                }
            }
            if place >= others {
                self.send(group, place);
                return Ok(done);
            }
        }
        self.send(group, place);
        if alone {
            self.impatient |= group;
        }
        Ok(turn)
    }

    fn report(&self, error: String, place: u32, mask: u32, here: &Surroundings<'_>) -> String {
        let [x, y, z] = here.block;
        let lane = mask.trailing_zeros();
        format!(
            "{error}, in {} at {}, block ({x}, {y}, {z}), warp {}, from lane {lane} on",
            here.program.name,
            here.program.place(place),
            self.number
        )
    }

    pub(super) fn send(&mut self, mask: u32, place: u32) {
        if mask == ALL {
            self.places = [place; LANES];
        } else {
            lanes(mask).for_each(|lane| self.places[lane] = place);
        }
    }

    /// Lanes for which it holds.
    pub(super) fn decide(&self, condition: Condition) -> u32 {
        match condition {
            Condition::Constant(true) => ALL,
            Condition::Constant(false) => 0,
            Condition::If(number) => self.predicates[number as usize],
            Condition::Unless(number) => !self.predicates[number as usize],
        }
    }

    /// A source's value in each lane.
    pub(super) fn read(&self, source: Source, here: &Surroundings<'_>) -> Lanes {
        match source {
            Source::Register(number) => self.registers[number as usize],
            Source::Number(number) => [number; LANES],
            Source::Local(offset) => {
                let (start, stride) = (self.local.as_ptr() as u64 + offset, Self::local_stride(here.program));
                std::array::from_fn(|lane| start + lane as u64 * stride)
            }
            Source::Parameter(offset) => [here.parameters.0 + offset; LANES],
            Source::Special(special) => self.special(special, here),
        }
    }

    fn special(&self, special: Special, here: &Surroundings<'_>) -> Lanes {
        let thread = |lane: usize| self.number * LANES as u32 + lane as u32;
        let [x, y, _] = here.launch.block;
        match special {
            Special::Thread(0) => std::array::from_fn(|lane| u64::from(thread(lane) % x)),
            Special::Thread(1) => std::array::from_fn(|lane| u64::from(thread(lane) / x % y)),
            Special::Thread(_) => std::array::from_fn(|lane| u64::from(thread(lane) / x / y)),
            Special::Threads(axis) => [u64::from(here.launch.block[axis]); LANES],
            Special::Block(axis) => [u64::from(here.block[axis]); LANES],
            Special::Blocks(axis) => [u64::from(here.launch.grid[axis]); LANES],
            Special::Lane => std::array::from_fn(|lane| lane as u64),
            Special::Warp => [u64::from(self.number); LANES],
            Special::Lanes(side) => std::array::from_fn(|lane| {
                let (own, before) = (1_u32 << lane, (1_u32 << lane) - 1);
                u64::from(match side {
                    Side::Own => own,
                    Side::Before => before,
                    Side::Through => before | own,
                    Side::Behind => !(before | own),
                    Side::From => !before,
                })
            }),
            Special::Clock => [self.clock; LANES],
            Special::Timer => [here.started.elapsed().as_nanos() as u64; LANES],
            Special::Rank => [u64::from(here.rank); LANES],
            Special::SharedBase => [here.shared[here.rank as usize]; LANES],
        }
    }

    /// Writes a register in the lanes of `mask`.
    pub(super) fn write(&mut self, number: u32, values: &Lanes, mask: u32) {
        let register = &mut self.registers[number as usize];
        if mask == ALL {
            *register = *values;
        } else {
            for lane in 0..LANES {
                if mask >> lane & 1 == 1 {
                    register[lane] = values[lane];
                }
            }
        }
    }

    pub(super) fn write_predicate(&mut self, number: u32, values: u32, mask: u32) {
        let predicate = &mut self.predicates[number as usize];
        *predicate = *predicate & !mask | values & mask;
    }

    fn execute(
        &mut self,
        one: &Instruction,
        place: u32,
        mask: u32,
        here: &mut Surroundings<'_>,
    ) -> Result<Flow, String> {
        match &one.operation {
            Operation::Jump(target) => return Ok(Flow::Jump(*target)),
            Operation::Exit => return Ok(Flow::Exit),
            Operation::Trap => return Err("a trap".to_owned()),
            Operation::Among(members, what) => {
                let members = self.read(*members, here);
                return self.among(&members, what, place, mask, here);
            }
            Operation::Meet(members) => {
                let members = self.read(*members, here);
                return Ok(self.meet(&members, place, mask));
            }
            Operation::Barrier { .. } => {
                self.come_to_barrier(&one.operation, place, mask, here)?;
                return Ok(Flow::Apart);
            }
            Operation::ClusterArrive => self.arrive_at_cluster(mask, here)?,
            Operation::ClusterWait => {
                self.wait_for_cluster(place, mask, here)?;
                return Ok(Flow::Apart);
            }
            _ => self.change(&one.operation, mask, here)?,
        }
        Ok(Flow::Next)
    }

    /// Where its lanes wait, for people.
    pub fn whereabouts(&self, program: &Program) -> String {
        let mut places: Vec<_> = lanes(self.alive).map(|lane| self.places[lane]).collect();
        places.sort_unstable();
        places.dedup();
        let places: Vec<_> = places.iter().map(|place| program.place(*place)).collect();
        format!("warp {} at {}", self.number, places.join(" and "))
    }
}
