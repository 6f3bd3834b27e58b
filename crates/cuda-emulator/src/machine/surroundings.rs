//! The environment of a running warp: its block and cluster, memory, and the launch.

use std::time::Instant;

use super::Launch;
use super::order::Order;
use super::program::{LANES, Program, Reduction};
use crate::memory::Memory;

/// Number of barriers of a block.
const BARRIERS: usize = 16;

/// Lanes of a warp that have arrived at a barrier.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Number of the warp.
    pub warp: u32,
    /// Mask of the lanes.
    pub mask: u32,
    /// The reduction that the barrier computes, if any.
    pub reduction: Option<Reduction>,
    /// Number of these lanes whose predicate is true.
    pub holds: u32,
    /// Number of the barrier instruction.
    pub place: u32,
    /// Whether the instruction requires that all lanes of the warp execute it together.
    pub aligned: bool,
}

/// Lanes that a barrier releases.
#[derive(Debug, Clone, Copy)]
pub struct Release {
    /// The lanes as they arrived.
    pub arrival: Arrival,
    /// Number of threads at the barrier whose predicate is true.
    pub holds: u32,
    /// Number of threads at the barrier.
    pub threads: u32,
}

/// The state of a barrier.
#[derive(Debug, Clone, Default)]
struct Barrier {
    /// Number of threads that the barrier waits for; `None` for all of the block.
    threads: Option<u32>,
    arrived: u32,
    holds: u32,
    held: Vec<Arrival>,
}

/// The barriers of a block and the state that its warps share.
#[derive(Debug, Clone, Default)]
pub struct Barriers {
    barriers: [Barrier; BARRIERS],
    /// Number of threads that have not exited.
    pub alive: u32,
    /// Released lanes, of which their warps have not been notified yet.
    pub releases: Vec<Release>,
}

/// The barrier of a cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClusterBarrier {
    /// Number of times that the barrier has completed.
    pub generation: u32,
    /// Number of threads that have arrived.
    pub arrived: u32,
    /// Number of threads that have not exited.
    pub alive: u32,
}

/// The environment of a running warp.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// The program of the kernel.
    pub program: &'a Program,
    /// Configuration of the launch.
    pub launch: &'a Launch,
    /// Device memory.
    pub memory: &'a Memory,
    /// Address and length in bytes of the parameters.
    pub parameters: (u64, u64),
    /// Start time of the kernel.
    pub started: Instant,
    /// Coordinates of the block in the grid.
    pub block: [u32; 3],
    /// Rank of the block in its cluster.
    pub rank: u32,
    /// Address of the shared memory of each block of the cluster; 0 if the block has exited.
    pub shared: &'a [u64],
    /// Bytes of shared memory of each block.
    pub shared_bytes: u64,
    /// The block's barriers.
    pub barriers: &'a mut Barriers,
    /// The barrier of the cluster.
    pub cluster: &'a mut ClusterBarrier,
    /// The order of execution.
    pub order: &'a Order,
}

impl Surroundings<'_> {
    /// Lanes arrive at barrier `number`, which waits for `threads` threads, or for all if that is `None`.
    ///
    /// # Errors
    /// Returns a message if there is no such barrier, if `threads` is not a multiple of the warp size, or if other
    /// lanes wait at this barrier with other parameters.
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

    /// Records that `threads` threads have exited, `counted` of which have arrived at the cluster's barrier. Barriers
    /// do not wait for them, and their arrivals are not counted any more.
    pub fn ended(&mut self, threads: u32, counted: u32) {
        self.barriers.alive -= threads;
        self.cluster.arrived -= counted;
        self.cluster.alive -= threads;
        self.barriers.open_those_due();
        self.arrive_at_cluster(0);
    }

    /// Records that `threads` threads have arrived at the cluster's barrier.
    pub fn arrive_at_cluster(&mut self, threads: u32) {
        self.cluster.arrived += threads;
        if self.cluster.arrived > 0 && self.cluster.arrived >= self.cluster.alive {
            self.cluster.arrived = 0;
            self.cluster.generation += 1;
        }
    }
}

impl Barriers {
    /// Returns the barriers of a block of `threads` threads.
    pub fn of(threads: u32) -> Self {
        Self { alive: threads, ..Self::default() }
    }

    /// Releases the lanes at barriers that all threads have reached. Exited threads are not waited for.
    fn open_those_due(&mut self) {
        for barrier in &mut self.barriers {
            if barrier.arrived > 0 && barrier.arrived >= barrier.threads.unwrap_or(self.alive) {
                let Barrier { arrived, holds, held, .. } = std::mem::take(barrier);
                self.releases.extend(held.into_iter().map(|arrival| Release { arrival, holds, threads: arrived }));
            }
        }
    }
}
