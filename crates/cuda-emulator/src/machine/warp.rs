//! A warp of 32 threads. Lanes at the same instruction execute it together.
//!
//! If lanes are at several instructions, the group at the lowest one runs, so that diverged lanes reconverge. A group
//! that runs for long yields to other groups, because it may be polling memory for their writes. With a seed, lanes at
//! the same instruction do not always run together.

use super::copies::Copies;
use super::lanes::{lanes, mask_of};
use super::program::{ALL, Condition, Instruction, LANES, Lanes, Operation, Program, Side, Source, Special};
use super::surroundings::Surroundings;

/// Maximum number of instructions of a group until another group of the warp runs.
const PATIENCE: u32 = 512;

/// State of a warp after its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Some lanes can run.
    Ready,
    /// All remaining lanes wait.
    Waiting,
    /// All lanes have exited.
    Done,
}

/// How lanes continue after an instruction.
pub(super) enum Flow {
    Next,
    Jump(u32),
    Exit,
    /// The instruction has set the next instruction of each lane.
    Apart,
}

/// The state of a warp.
#[derive(Debug)]
pub struct Warp {
    /// Number of the warp in its block.
    pub number: u32,
    pub(super) registers: Vec<Lanes>,
    pub(super) predicates: Vec<u32>,
    pub(super) carry: u32,
    /// The next instruction of each lane.
    pub(super) places: [u32; LANES],
    /// Mask of the lanes that have not exited.
    pub(super) alive: u32,
    /// Mask of the suspended lanes.
    pub(super) waiting: u32,
    /// Mask of the lanes that wait for other lanes of the warp: for an exchange or at a warp barrier.
    pub(super) exchanging: u32,
    pub(super) meeting: u32,
    /// Mask of the lanes that wait at the cluster's barrier.
    pub(super) at_cluster: u32,
    /// Mask of the lanes that have arrived at the cluster's barrier without having waited since.
    pub(super) said: u32,
    /// Generation of the cluster's barrier at which each lane last arrived.
    pub(super) generations: [u32; LANES],
    /// Asynchronous copies that are pending.
    pub(super) copies: Copies,
    /// Local memory, lane after lane.
    pub(super) local: Vec<u128>,
    /// Start and end of the device memory in which the last access was found.
    pub(super) window: (u64, u64),
    /// Number of executed instructions.
    pub(super) clock: u64,
    /// Mask of the lanes that have run alone for long.
    impatient: u32,
}

impl Warp {
    /// Allocates a warp for `program`; [`Self::start`] must follow.
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

    /// Resets the warp to the start with `lanes` lanes. Registers and local memory are undefined and keep their
    /// contents.
    pub fn start(&mut self, number: u32, lanes: u32) {
        self.number = number;
        self.alive = if lanes as usize >= LANES { ALL } else { (1 << lanes) - 1 };
        self.places = [0; LANES];
        (self.waiting, self.exchanging, self.meeting, self.at_cluster, self.impatient) = (0, 0, 0, 0, 0);
        (self.said, self.copies, self.window) = (0, Copies::default(), (0, 0));
    }

    /// Returns the bytes of local memory per lane.
    pub(super) fn local_stride(program: &Program) -> u64 {
        program.local.next_multiple_of(16) as u64
    }

    /// Runs for about `budget` instructions.
    ///
    /// # Errors
    /// Returns a message with the error.
    pub fn run(&mut self, here: &mut Surroundings<'_>, mut budget: u32) -> Result<Progress, String> {
        while budget > 0 {
            let Some((place, group, others)) = self.pick() else {
                if self.alive == 0 {
                    return Ok(Progress::Done);
                }
                if !self.resume_after_exits(here)? {
                    return Ok(Progress::Waiting);
                }
                continue;
            };
            let (some, turn) = here.order.select_lanes(group, budget);
            budget -= self.run_group(here, place, some, others, turn)?;
        }
        Ok(Progress::Ready)
    }

    /// Selects the group to run. Returns its mask, its instruction, and the first instruction of other lanes after it.
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

    /// Runs a group until it diverges, reaches other lanes, is suspended or has used its turn. Returns the number of
    /// executed instructions.
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
                return Err(format!("execution of {} continues past its end", program.name));
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

    /// Returns the mask of the lanes for which a condition is true.
    pub(super) fn decide(&self, condition: Condition) -> u32 {
        match condition {
            Condition::Constant(true) => ALL,
            Condition::Constant(false) => 0,
            Condition::If(number) => self.predicates[number as usize],
            Condition::Unless(number) => !self.predicates[number as usize],
        }
    }

    /// Returns the value of a source in each lane.
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
                return self.arrive_at_exchange(&members, what, place, mask, here);
            }
            Operation::Meet(members) => {
                let members = self.read(*members, here);
                return Ok(self.arrive_at_warp_barrier(&members, place, mask));
            }
            Operation::Barrier { .. } => {
                self.arrive_at_barrier(&one.operation, place, mask, here)?;
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

    /// Returns a text with the locations at which the lanes wait.
    pub fn whereabouts(&self, program: &Program) -> String {
        let mut places: Vec<_> = lanes(self.alive).map(|lane| self.places[lane]).collect();
        places.sort_unstable();
        places.dedup();
        let places: Vec<_> = places.iter().map(|place| program.place(*place)).collect();
        format!("warp {} at {}", self.number, places.join(" and "))
    }
}
