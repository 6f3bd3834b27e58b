//! What a warp finds around it: its block and cluster, memory, the launch.

use std::time::Instant;

use super::Launch;
use super::order::Order;
use super::program::{LANES, Program, Reduction};
use crate::memory::Memory;

/// Barriers that a block has.
const BARRIERS: usize = 16;

/// Lanes of a warp that have come to a barrier.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Number of the warp.
    pub warp: u32,
    /// The lanes.
    pub mask: u32,
    /// What they want to find out.
    pub reduction: Option<Reduction>,
    /// For how many of them the predicate holds.
    pub holds: u32,
    /// The instruction by which they came.
    pub place: u32,
    /// Whether all lanes of the warp have to come by it.
    pub aligned: bool,
}

/// Lanes that go on.
#[derive(Debug, Clone, Copy)]
pub struct Release {
    /// Who they are.
    pub arrival: Arrival,
    /// For how many threads the predicate holds.
    pub holds: u32,
    /// How many threads were at the barrier.
    pub threads: u32,
}

/// Who is at a barrier.
#[derive(Debug, Clone, Default)]
struct Barrier {
    /// Threads that it waits for, if not all of the block.
    threads: Option<u32>,
    arrived: u32,
    holds: u32,
    held: Vec<Arrival>,
}

/// What a block's warps share beside its memory.
#[derive(Debug, Clone, Default)]
pub struct Barriers {
    barriers: [Barrier; BARRIERS],
    /// Threads that have not ended.
    pub alive: u32,
    /// Lanes that go on, to be told to their warps.
    pub releases: Vec<Release>,
}

/// What a cluster's blocks share.
#[derive(Debug, Clone, Copy, Default)]
pub struct Meeting {
    /// How often all threads have met.
    pub generation: u32,
    /// Threads that have said that they are there.
    pub arrived: u32,
    /// Threads that have not ended.
    pub alive: u32,
}

/// What a warp finds around it.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// What it runs.
    pub program: &'a Program,
    /// How it was launched.
    pub launch: &'a Launch,
    /// Device memory.
    pub memory: &'a Memory,
    /// Address and length of the parameters.
    pub parameters: (u64, u64),
    /// When the kernel began.
    pub started: Instant,
    /// The block's place in the grid.
    pub block: [u32; 3],
    /// The block's number in its cluster.
    pub rank: u32,
    /// Where shared memory starts, of each block of the cluster; 0 if the block has ended.
    pub shared: &'a [u64],
    /// Bytes of shared memory of each.
    pub shared_bytes: u64,
    /// The block's barriers.
    pub barriers: &'a mut Barriers,
    /// The cluster's.
    pub cluster: &'a mut Meeting,
    /// In which order things are done.
    pub order: &'a Order,
}

impl Surroundings<'_> {
    /// Lanes come to barrier `number`, which waits for `threads` threads or all.
    ///
    /// # Errors
    /// If there is no such barrier, it waits for something else than warps, or others wait there for other things.
    pub fn arrive(&mut self, number: u64, threads: Option<u32>, arrival: Arrival) -> Result<(), String> {
        let barrier = usize::try_from(number).ok().and_then(|number| self.barriers.barriers.get_mut(number));
        let barrier = barrier.ok_or_else(|| format!("no barrier {number}"))?;
        if let Some(threads) = threads.filter(|threads| !threads.is_multiple_of(LANES as u32)) {
            return Err(format!("barrier {number} is to wait for {threads} threads, which are no warps"));
        }
        if barrier.arrived > 0 && barrier.threads != threads {
            return Err(format!("barrier {number} waits for {:?} threads and {threads:?}", barrier.threads));
        }
        barrier.threads = threads;
        barrier.arrived += arrival.mask.count_ones();
        barrier.holds += arrival.holds;
        barrier.held.push(arrival);
        self.barriers.open_those_due();
        Ok(())
    }

    /// So many threads are done, of which the cluster has counted some as there: they are not waited for, nor do they
    /// stand for others.
    pub fn ended(&mut self, threads: u32, counted: u32) {
        self.barriers.alive -= threads;
        self.cluster.arrived -= counted;
        self.cluster.alive -= threads;
        self.barriers.open_those_due();
        self.arrive_at_cluster(0);
    }

    /// So many threads say to the cluster that they are there.
    pub fn arrive_at_cluster(&mut self, threads: u32) {
        self.cluster.arrived += threads;
        if self.cluster.arrived > 0 && self.cluster.arrived >= self.cluster.alive {
            self.cluster.arrived = 0;
            self.cluster.generation += 1;
        }
    }
}

impl Barriers {
    /// Those of a block of so many threads.
    pub fn of(threads: u32) -> Self {
        Self { alive: threads, ..Self::default() }
    }

    /// Lets all go on from barriers that all have come to: threads that have ended are not waited for.
    fn open_those_due(&mut self) {
        for barrier in &mut self.barriers {
            if barrier.arrived > 0 && barrier.arrived >= barrier.threads.unwrap_or(self.alive) {
                let Barrier { arrived, holds, held, .. } = std::mem::take(barrier);
                self.releases.extend(held.into_iter().map(|arrival| Release { arrival, holds, threads: arrived }));
            }
        }
    }
}
