//! The program that a warp executes: a kernel's instructions with resolved names and inlined functions.

use std::sync::Arc;

/// Number of lanes of a warp.
pub const LANES: usize = 32;

/// Maximum number of values that an instruction loads or stores.
pub const MOST_PARTS: usize = 4;

/// Mask of all lanes.
pub const ALL: u32 = u32::MAX;

/// The value of a register in each lane. Values of 16 and 32 bits are zero-extended; floats are stored as their bits.
pub type Lanes = [u64; LANES];

/// An operand that an instruction reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A register.
    Register(u32),
    /// A constant: a number, an address of device memory, or an offset in shared memory.
    Number(u64),
    /// The generic address of an offset in bytes in the lane's local memory.
    Local(u64),
    /// The address of an offset in bytes in the kernel's parameters.
    Parameter(u64),
    /// A special register.
    Special(Special),
}

/// Special registers, which the machine sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// Index of the thread in its block along this axis.
    Thread(usize),
    /// Number of threads of a block along this axis.
    Threads(usize),
    /// Index of the block in its grid along this axis.
    Block(usize),
    /// Number of blocks of the grid along this axis.
    Blocks(usize),
    /// Number of the lane in its warp.
    Lane,
    /// Number of the warp in its block.
    Warp,
    /// Mask of lanes relative to this lane.
    Lanes(Side),
    /// Number of instructions executed so far.
    Clock,
    /// Nanoseconds since the start.
    Timer,
    /// Rank of the block in its cluster.
    Rank,
    /// Address of the block's shared memory.
    SharedBase,
}

/// A set of lanes relative to a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The lane itself.
    Own,
    /// Lower lanes.
    Before,
    /// Lower lanes and the lane itself.
    Through,
    /// Higher lanes.
    Behind,
    /// The lane itself and higher lanes.
    From,
}

/// A condition that is evaluated in each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// True if the predicate is true.
    If(u32),
    /// True if the predicate is false.
    Unless(u32),
    /// Always this value.
    Constant(bool),
}

/// The state space of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// A generic address in any space.
    Generic,
    /// Device memory.
    Global,
    /// Offset in the block's shared memory.
    Shared,
    /// Shared memory of the cluster's blocks, by rank and offset.
    Cluster,
    /// Local memory of the lane, by address.
    Local,
    /// Parameters of the kernel, by address.
    Parameter,
}

/// A memory operand, evaluated in each lane.
#[derive(Debug, Clone, Copy)]
pub struct Address {
    /// The state space.
    pub space: Space,
    /// The base address.
    pub base: Source,
    /// Bytes to add to the base.
    pub offset: i64,
}

/// Function that computes one value from one operand in each lane. In `Map2` to `Map4`, from two to four operands.
pub type Map1 = fn(&Lanes) -> Lanes;
/// See [`Map1`].
pub type Map2 = fn(&Lanes, &Lanes) -> Lanes;
/// See [`Map1`].
pub type Map3 = fn(&Lanes, &Lanes, &Lanes) -> Lanes;
/// See [`Map1`].
pub type Map4 = fn(&Lanes, &Lanes, &Lanes, &Lanes) -> Lanes;
/// Function that returns the mask of lanes for which a comparison is true.
pub type Compare = fn(&Lanes, &Lanes) -> u32;
/// Function that returns the new value of an atomic operation from the old value and the operand.
pub type Update = fn(u64, u64) -> u64;

/// How a shuffle determines its source lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shuffle {
    /// A lower lane by a distance.
    Up,
    /// A higher lane by a distance.
    Down,
    /// The exclusive or of lane number and operand.
    Butterfly,
    /// A lane by its number.
    Index,
}

/// An instruction with which lanes of a warp exchange values.
#[derive(Debug, Clone)]
pub enum Exchange {
    /// Reads a value of another lane.
    Shuffle { way: Shuffle, to: Option<u32>, found: Option<u32>, value: Source, lane: Source, clamp: Source },
    /// Computes the mask of lanes for which a predicate is true.
    Ballot { to: u32, of: Condition },
    /// Computes whether a predicate is true for any lane, for all lanes, or equal in all lanes.
    Vote { to: u32, any: bool, uniform: bool, of: Condition },
    /// Combines the values of all lanes.
    Reduce { to: u32, value: Source, by: Update },
    /// Computes the mask of lanes with the same value.
    Match { to: u32, value: Source },
}

/// A reduction of a predicate over the threads at a barrier, and the register or predicate for the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Number of threads for which the predicate is true.
    Count(u32),
    /// Whether it is true for any thread.
    Any(u32),
    /// Whether it is true for all threads.
    All(u32),
}

/// The operation of an instruction.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Computes one value from one operand.
    Map1(Map1, u32, Source),
    /// Computes one value from two operands.
    Map2(Map2, u32, Source, Source),
    /// Computes one value from three operands.
    Map3(Map3, u32, Source, Source, Source),
    /// Computes one value from four operands.
    Map4(Map4, u32, Box<[Source; 4]>),
    /// Sets a predicate, and optionally another one to its opposite.
    Compare { by: Compare, to: Option<u32>, opposite: Option<u32>, a: Source, b: Source },
    /// Selects one of two values.
    Select { to: u32, a: Source, b: Source, by: Condition },
    /// Combines two predicates.
    Logic { by: fn(u32, u32) -> u32, to: u32, a: Condition, b: Condition },
    /// Multiply-add with carry: the low 32 bits of product and sum, which sets the carry; or the high 32 bits, which
    /// adds the carry and keeps it.
    Carry { high: bool, to: u32, sources: Box<[Source; 3]> },
    /// Concatenates values of `bits` bits to one value, the first in the lowest bits.
    Pack { to: u32, bits: u32, from: Box<[Source]> },
    /// Splits a value into several of `bits` bits.
    Unpack { to: Box<[Option<u32>]>, bits: u32, from: Source },
    /// Loads consecutive values of `bytes` bytes from memory.
    Load { to: Box<[Option<u32>]>, bytes: u32, extend: Option<Map1>, address: Address },
    /// Stores consecutive values of `bytes` bytes to memory.
    Store { from: Box<[Source]>, bytes: u32, address: Address },
    /// Atomically changes a value in memory.
    Atomic { to: Option<u32>, by: Update, bytes: u32, address: Address, value: Source },
    /// Atomically replaces a value in memory if it equals the expected one.
    Exchange { to: Option<u32>, bytes: u32, address: Address, expected: Source, value: Source },
    /// Jumps to an instruction.
    Jump(u32),
    /// Exits the thread.
    Exit,
    /// Stops the kernel with an error.
    Trap,
    /// Exchanges values between lanes; the first operand is the mask of participating lanes.
    Among(Source, Box<Exchange>),
    /// Waits for the lanes of a mask.
    Meet(Source),
    /// Computes the mask of the lanes that execute the instruction together.
    Active(u32),
    /// Waits at a barrier of the block: its number, the number of threads if not all, an optional reduction of a
    /// predicate, and whether all lanes of a warp must execute the instruction together.
    Barrier { number: Source, threads: Option<Source>, reduction: Option<(Reduction, Condition)>, aligned: bool },
    /// Arrives at the cluster's barrier without waiting.
    ClusterArrive,
    /// Waits until all threads of the cluster have arrived at its barrier.
    ClusterWait,
    /// Computes the address of the same offset in the shared memory of another block of the cluster.
    Map { to: u32, address: Source, rank: Source },
    /// Starts an asynchronous copy: a small one to shared memory, or a bulk copy from shared memory.
    Copy { to: Address, from: Address, bytes: Source, bulk: bool },
    /// Commits the started copies of one kind as a group.
    Group { bulk: bool },
    /// Waits for all copies of one kind, or for all groups except the last `but`.
    Await { bulk: bool, but: Option<u32> },
    /// Discards the contents of a cache line of `bytes` bytes.
    Discard { address: Address, bytes: u32 },
    /// No observable operation.
    Nothing,
}

/// An instruction of a program.
#[derive(Debug, Clone)]
pub struct Instruction {
    /// The lanes that execute the instruction.
    pub guard: Condition,
    /// The operation of the instruction.
    pub operation: Operation,
    /// Number of the source file and line, 0 and 0 if unknown.
    pub line: (u32, u32),
}

/// A kernel that is ready to run.
#[derive(Debug, Clone)]
pub struct Program {
    /// Name of the kernel.
    pub name: String,
    /// Instructions, numbered from 0.
    pub instructions: Vec<Instruction>,
    /// Number of registers of a warp.
    pub registers: u32,
    /// Number of predicates of a warp.
    pub predicates: u32,
    /// Local memory of a lane in bytes.
    pub local: usize,
    /// Static shared memory of a block in bytes.
    pub shared: usize,
    /// Offset and length in bytes of each parameter.
    pub parameters: Vec<(usize, usize)>,
    /// Maximum threads of a block.
    pub most_threads: u32,
    /// Blocks of a cluster, if the kernel specifies them.
    pub cluster: Option<[u32; 3]>,
    /// Names of source files by number.
    pub files: Arc<Vec<(u32, String)>>,
}

impl Program {
    /// Returns the length of all parameters in bytes.
    pub fn parameter_bytes(&self) -> usize {
        self.parameters.last().map_or(0, |(offset, bytes)| offset + bytes)
    }

    /// Returns the file and line of an instruction for messages.
    pub fn place(&self, number: u32) -> String {
        let Some(instruction) = self.instructions.get(number as usize) else { return "behind its end".to_owned() };
        let (file, line) = instruction.line;
        let name = self.files.iter().find(|(number, _)| *number == file).map_or("unknown file", |(_, name)| name);
        format!("{name}:{line}")
    }
}
