//! Runs all blocks of a kernel: as many at a time as the device holds, with their warps alternating.

use std::time::Instant;

use super::Launch;
use super::order::Order;
use super::program::{LANES, Program};
use super::surroundings::{Arrival, Barriers, ClusterBarrier, Release, Surroundings};
use super::warp::{Progress, Warp};
use crate::memory::{Memory, POISON};

/// Alignment of shared memory in bytes.
const SHARED_ALIGN: usize = 1024;

/// A running block.
struct Block {
    place: [u32; 3],
    warps: Vec<Warp>,
    barriers: Barriers,
}

/// Blocks of a cluster, which run together.
struct Cluster {
    blocks: Vec<Block>,
    meeting: ClusterBarrier,
    /// Shared memory of all blocks.
    memory: Vec<u8>,
    /// Start address of each block's shared memory; 0 once the block has exited.
    shared: Vec<u64>,
}

/// A running kernel.
pub struct Grid<'a> {
    program: &'a Program,
    launch: &'a Launch,
    memory: &'a Memory,
    parameters: Vec<u128>,
    started: Instant,
    shared_bytes: usize,
    order: Order,
}

impl<'a> Grid<'a> {
    /// Prepares a launch of `program`. Each seed other than 0 selects another order of execution.
    pub fn new(program: &'a Program, launch: &'a Launch, memory: &'a Memory, seed: u64) -> Self {
        // Padding, because parameters are read in pieces of up to 16 bytes.
        let whole = |bytes: &[u8]| {
            let mut piece = [0; 16];
            piece[..bytes.len()].copy_from_slice(bytes);
            u128::from_ne_bytes(piece)
        };
        let parameters = launch.parameters.chunks(16).map(whole).collect();
        let shared_bytes = program.shared + launch.shared_memory;
        let order = Order::from_seed(seed);
        Self { program, launch, memory, parameters, started: Instant::now(), shared_bytes, order }
    }

    /// Runs all blocks, up to `at_a_time` of them concurrently.
    ///
    /// # Errors
    /// Returns a message with the error and its location.
    pub fn run(&self, at_a_time: u32) -> Result<(), String> {
        let size = self.launch.cluster;
        let counts: [u32; 3] = std::array::from_fn(|axis| self.launch.grid[axis] / size[axis].max(1));
        let all = counts.iter().map(|&count| u64::from(count)).product::<u64>();
        let blocks: u32 = size.iter().product();
        let most = u64::from(at_a_time / blocks.max(1)).max(1).min(all);
        let mut clusters: Vec<Cluster> = (0..most).map(|_| self.cluster(blocks)).collect();
        let mut next = 0;
        for cluster in &mut clusters {
            self.start(cluster, next, counts);
            next += 1;
        }
        while !clusters.is_empty() {
            let mut any = false;
            let mut ended = Vec::new();
            for number in self.order.all(clusters.len()) {
                let cluster = &mut clusters[number];
                let (moved, done) = self.advance(cluster)?;
                any |= moved || done;
                if done && next < all {
                    self.start(cluster, next, counts);
                    next += 1;
                } else if done {
                    ended.push(number);
                }
            }
            if !any {
                return Err(self.deadlock_message(&clusters));
            }
            ended.sort_unstable();
            ended.into_iter().rev().for_each(|number| drop(clusters.swap_remove(number)));
        }
        Ok(())
    }

    /// Allocates a cluster.
    fn cluster(&self, blocks: u32) -> Cluster {
        let [x, y, z] = self.launch.block;
        let warps = (x * y * z).div_ceil(LANES as u32);
        let stride = self.shared_bytes.next_multiple_of(SHARED_ALIGN);
        let memory = vec![POISON; stride * blocks as usize + SHARED_ALIGN];
        let shared = vec![0; blocks as usize];
        let warp = |_| Warp::new(self.program);
        let block = |_| Block { place: [0; 3], warps: (0..warps).map(warp).collect(), barriers: Barriers::default() };
        Cluster { blocks: (0..blocks).map(block).collect(), meeting: ClusterBarrier::default(), memory, shared }
    }

    /// Resets a cluster to the start of the cluster with this number.
    fn start(&self, cluster: &mut Cluster, number: u64, counts: [u32; 3]) {
        let size = self.launch.cluster;
        let [x, y, z] = self.launch.block;
        let threads = x * y * z;
        let [along_x, along_y, _] = counts.map(u64::from);
        let place = [number % along_x, number / along_x % along_y, number / along_x / along_y];
        cluster.memory.fill(POISON);
        let stride = self.shared_bytes.next_multiple_of(SHARED_ALIGN) as u64;
        let start = (cluster.memory.as_ptr() as u64).next_multiple_of(SHARED_ALIGN as u64);
        (0..).zip(&mut cluster.shared).for_each(|(block, place): (u64, _)| *place = start + block * stride);
        cluster.meeting = ClusterBarrier { alive: threads * cluster.blocks.len() as u32, ..ClusterBarrier::default() };
        for (rank, block) in cluster.blocks.iter_mut().enumerate() {
            let rank = rank as u32;
            let within = [rank % size[0], rank / size[0] % size[1], rank / size[0] / size[1]];
            block.place = std::array::from_fn(|axis| place[axis] as u32 * size[axis] + within[axis]);
            block.barriers = Barriers::of(threads);
            for (number, warp) in block.warps.iter_mut().enumerate() {
                let first = number as u32 * LANES as u32;
                warp.start(number as u32, (threads - first).min(LANES as u32));
            }
        }
    }

    /// Gives each warp of a cluster a turn. Returns whether any warp made progress, and whether all have exited.
    fn advance(&self, cluster: &mut Cluster) -> Result<(bool, bool), String> {
        let (mut any, mut left) = (false, false);
        let Cluster { blocks, meeting, shared, .. } = cluster;
        let parameters = (self.parameters.as_ptr() as u64, self.launch.parameters.len() as u64);
        let mut generation = meeting.generation;
        for rank in self.order.all(blocks.len()) {
            let Block { place, warps, barriers } = &mut blocks[rank];
            for number in self.order.all(warps.len()) {
                let mut here = Surroundings {
                    program: self.program,
                    launch: self.launch,
                    memory: self.memory,
                    parameters,
                    started: self.started,
                    block: *place,
                    rank: rank as u32,
                    shared,
                    shared_bytes: self.shared_bytes as u64,
                    barriers,
                    cluster: meeting,
                    order: &self.order,
                };
                let before = warps[number].clock;
                let progress = warps[number].run(&mut here, self.order.turn())?;
                any |= warps[number].clock != before || !barriers.releases.is_empty();
                left |= progress != Progress::Done;
                self.check_aligned(&barriers.releases, warps, *place)?;
                for Release { arrival, holds, threads } in barriers.releases.drain(..) {
                    warps[arrival.warp as usize].release(arrival.mask, arrival.reduction, holds, threads);
                }
            }
            if barriers.alive == 0 {
                shared[rank] = 0;
            }
            if meeting.generation != generation {
                generation = meeting.generation;
                any = true;
                let warps = blocks.iter_mut().flat_map(|block| &mut block.warps);
                warps.for_each(|warp| warp.release_from_cluster(generation));
            }
        }
        Ok((any, !left))
    }

    /// Returns an error if warps pass an aligned barrier although their lanes have executed different barrier
    /// instructions.
    fn check_aligned(&self, releases: &[Release], warps: &[Warp], [x, y, z]: [u32; 3]) -> Result<(), String> {
        for Arrival { warp, place, .. } in releases.iter().map(|one| one.arrival).filter(|one| one.aligned) {
            let same = releases.iter().filter(|one| (one.arrival.warp, one.arrival.place) == (warp, place));
            let there = same.fold(0, |mask, one| mask | one.arrival.mask);
            let alive = warps[warp as usize].alive;
            if there != alive {
                return Err(format!(
                    "lanes {there:#x} pass an aligned barrier without others of {alive:#x}, in {} at {}, \
                     block ({x}, {y}, {z}), warp {warp}",
                    self.program.name,
                    self.program.place(place),
                ));
            }
        }
        Ok(())
    }

    /// Returns the message for a deadlock, with the location of each waiting warp.
    fn deadlock_message(&self, clusters: &[Cluster]) -> String {
        let blocks = clusters.iter().flat_map(|cluster| &cluster.blocks);
        let warps = blocks.flat_map(|block| block.warps.iter().map(move |warp| (block.place, warp)));
        let waiting = warps.filter(|(_, warp)| warp.alive != 0).take(4);
        let waiting: Vec<_> = waiting
            .map(|([x, y, z], warp)| format!("block ({x}, {y}, {z}) {}", warp.whereabouts(self.program)))
            .collect();
        format!("{}: threads wait for each other for ever: {}", self.program.name, waiting.join("; "))
    }
}
