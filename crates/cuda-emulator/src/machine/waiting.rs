//! Instructions that wait: for lanes of the same warp, at the block's barriers, and at the cluster's barrier.

use super::lanes::{lanes, mask_of};
use super::program::{ALL, Exchange, LANES, Lanes, Operation, Reduction, Source};
use super::surroundings::{Arrival, Surroundings};
use super::warp::{Flow, Warp};

impl Warp {
    /// Executes an exchange of lanes, or suspends them until all participating lanes have arrived.
    pub(super) fn arrive_at_exchange(
        &mut self,
        members: &Lanes,
        what: &Exchange,
        place: u32,
        mask: u32,
        here: &Surroundings<'_>,
    ) -> Result<Flow, String> {
        let first = members[mask.trailing_zeros() as usize] as u32;
        if first & self.alive == mask && lanes(mask).all(|lane| members[lane] as u32 == first) {
            self.exchange(what, mask, here)?;
            return Ok(Flow::Next);
        }
        self.send(mask, place);
        self.waiting |= mask;
        self.exchanging |= mask;
        self.complete_exchange(members, what, place, mask, here)?;
        Ok(Flow::Apart)
    }

    /// Executes the exchange at instruction `place` if all participating lanes have arrived.
    fn complete_exchange(
        &mut self,
        members: &Lanes,
        what: &Exchange,
        place: u32,
        mask: u32,
        here: &Surroundings<'_>,
    ) -> Result<bool, String> {
        let mut left = mask;
        let mut any = false;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            if members[lane] as u32 >> lane & 1 == 0 {
                return Err(format!("lane {lane} is none of the members {:#x}", members[lane]));
            }
            let needed = members[lane] as u32 & self.alive;
            let there = lanes(self.exchanging).filter(|&lane| self.places[lane] == place);
            if needed & !mask_of(there) == 0 {
                self.exchange(what, needed, here)?;
                self.send(needed, place + 1);
                self.waiting &= !needed;
                self.exchanging &= !needed;
                any = true;
            }
            left &= !(needed | 1 << lane);
        }
        Ok(any)
    }

    pub(super) fn arrive_at_warp_barrier(&mut self, members: &Lanes, place: u32, mask: u32) -> Flow {
        let first = members[mask.trailing_zeros() as usize] as u32;
        if first & self.alive == mask {
            return Flow::Next;
        }
        self.send(mask, place + 1);
        self.waiting |= mask;
        self.meeting |= mask;
        for lane in lanes(mask) {
            self.open_warp_barrier(members[lane] as u32);
        }
        Flow::Apart
    }

    /// Resumes the lanes of `members` if all of them that have not exited have arrived. Returns whether they resume.
    fn open_warp_barrier(&mut self, members: u32) -> bool {
        let needed = members & self.alive;
        let met = needed & !self.meeting == 0;
        if met {
            self.waiting &= !needed;
            self.meeting &= !needed;
        }
        met
    }

    /// Resumes lanes that waited for lanes that have exited since. Returns whether any lane can run.
    pub(super) fn resume_after_exits(&mut self, here: &Surroundings<'_>) -> Result<bool, String> {
        let mut any = false;
        for lane in lanes(self.exchanging) {
            let place = self.places[lane];
            if self.exchanging >> lane & 1 == 1
                && let Operation::Among(members, what) = &here.program.instructions[place as usize].operation
            {
                let members = self.read(*members, here);
                any |= self.complete_exchange(&members, what, place, 1 << lane, here)?;
            }
        }
        for lane in lanes(self.meeting) {
            // Lanes are at the instruction after the one that suspended them.
            let place = self.places[lane] as usize - 1;
            if self.meeting >> lane & 1 == 1
                && let Operation::Meet(members) = here.program.instructions[place].operation
            {
                any |= self.open_warp_barrier(self.read(members, here)[lane] as u32);
            }
        }
        Ok(any)
    }

    /// Suspends lanes at a barrier of the block.
    pub(super) fn arrive_at_barrier(
        &mut self,
        barrier: &Operation,
        place: u32,
        mask: u32,
        here: &mut Surroundings<'_>,
    ) -> Result<(), String> {
        let Operation::Barrier { number, threads, reduction, aligned } = barrier else { return Ok(()) };
        let number = self.same(*number, mask, here)?;
        let threads = threads.map(|threads| self.same(threads, mask, here)).transpose()?;
        let (reduction, holds) = match reduction {
            None => (None, 0),
            Some((reduction, of)) => (Some(*reduction), self.decide(*of) & mask),
        };
        self.send(mask, place + 1);
        self.waiting |= mask;
        let holds = holds.count_ones();
        let arrival = Arrival { warp: self.number, mask, reduction, holds, place, aligned: *aligned };
        here.arrive(number, threads.map(|threads| threads as u32), arrival)
    }

    /// Returns the value of a source that must be equal in all lanes of `mask`, which arrive at a barrier together.
    fn same(&self, source: Source, mask: u32, here: &Surroundings<'_>) -> Result<u64, String> {
        let values = self.read(source, here);
        let first = values[mask.trailing_zeros() as usize];
        if lanes(mask).any(|lane| values[lane] != first) {
            return Err("one instruction waits at different barriers in different lanes".to_owned());
        }
        Ok(first)
    }

    /// Resumes lanes that a barrier has released, and writes the results of its reduction.
    pub fn release(&mut self, mask: u32, reduction: Option<Reduction>, holds: u32, threads: u32) {
        self.waiting &= !mask;
        match reduction {
            None => {}
            Some(Reduction::Count(to)) => self.write(to, &[u64::from(holds); LANES], mask),
            Some(Reduction::Any(to)) => self.write_predicate(to, if holds > 0 { ALL } else { 0 }, mask),
            Some(Reduction::All(to)) => self.write_predicate(to, if holds == threads { ALL } else { 0 }, mask),
        }
    }

    /// Records that lanes have arrived at the cluster's barrier.
    pub(super) fn arrive_at_cluster(&mut self, mask: u32, here: &mut Surroundings<'_>) -> Result<(), String> {
        if self.said & mask != 0 {
            return Err("a thread arrives twice at the cluster's barrier".to_owned());
        }
        self.said |= mask;
        lanes(mask).for_each(|lane| self.generations[lane] = here.cluster.generation);
        here.arrive_at_cluster(mask.count_ones());
        Ok(())
    }

    /// Returns how many lanes of `mask` have arrived at the cluster's barrier of this generation.
    pub(super) fn counted_by_cluster(&self, mask: u32, generation: u32) -> u32 {
        lanes(mask & self.said).filter(|&lane| self.generations[lane] == generation).count() as u32
    }

    /// Suspends lanes until all threads have arrived at the cluster's barrier.
    pub(super) fn wait_for_cluster(&mut self, place: u32, mask: u32, here: &Surroundings<'_>) -> Result<(), String> {
        if mask & !self.said != 0 {
            return Err("a thread waits at the cluster's barrier without having arrived".to_owned());
        }
        self.said &= !mask;
        let late = lanes(mask).filter(|&lane| self.generations[lane] == here.cluster.generation);
        let late = mask_of(late);
        self.send(mask, place + 1);
        self.waiting |= late;
        self.at_cluster |= late;
        Ok(())
    }

    /// Resumes lanes that waited at the cluster's barrier, except those that have already arrived at the next one, that
    /// of `generation`.
    pub fn release_from_cluster(&mut self, generation: u32) {
        let over = mask_of(lanes(self.at_cluster).filter(|&lane| self.generations[lane] != generation));
        self.waiting &= !over;
        self.at_cluster &= !over;
    }
}
