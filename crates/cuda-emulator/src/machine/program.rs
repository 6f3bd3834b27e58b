//! What a warp does: a kernel's instructions with all names resolved and all functions in place.

use std::sync::Arc;

/// Lanes of a warp.
pub const LANES: usize = 32;

/// Values that an instruction loads or stores, at most.
pub const MOST_PARTS: usize = 4;

/// All lanes.
pub const ALL: u32 = u32::MAX;

/// A register's value in each lane: 16 and 32 bits are zero-extended, floats their bits.
pub type Lanes = [u64; LANES];

/// What an instruction reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A register.
    Register(u32),
    /// A number, an address of device memory, an offset in shared memory.
    Number(u64),
    /// The address so many bytes into the lane's local memory.
    Local(u64),
    /// The address so many bytes into the kernel's parameters.
    Parameter(u64),
    /// A special register.
    Special(Special),
}

/// Registers that the machine sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// Number of the thread in its block, by axis.
    Thread(usize),
    /// Threads of a block.
    Threads(usize),
    /// Number of the block in its grid.
    Block(usize),
    /// Blocks of the grid.
    Blocks(usize),
    /// Number of the lane in its warp.
    Lane,
    /// Number of the warp in its block.
    Warp,
    /// The mask of lanes on that side of this one.
    Lanes(Side),
    /// Instructions done so far.
    Clock,
    /// Nanoseconds.
    Timer,
    /// Number of the block in its cluster.
    Rank,
    /// Address at which the block's shared memory starts.
    SharedBase,
}

/// Lanes, seen from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The lane itself.
    Own,
    /// Those before it.
    Before,
    /// Those before it and itself.
    Through,
    /// Those behind it.
    Behind,
    /// Itself and those behind it.
    From,
}

/// What decides about something by lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The predicate.
    If(u32),
    /// Its opposite.
    Unless(u32),
    /// Always or never.
    Constant(bool),
}

/// Where memory is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// Wherever the address points.
    Generic,
    /// Device memory.
    Global,
    /// The block's shared memory, by offset.
    Shared,
    /// Shared memory of the cluster's blocks, by rank and offset.
    Cluster,
    /// The lane's local memory, by address.
    Local,
    /// The kernel's parameters, by address.
    Parameter,
}

/// An address in each lane.
#[derive(Debug, Clone, Copy)]
pub struct Address {
    /// Where it points.
    pub space: Space,
    /// What it starts from.
    pub base: Source,
    /// Bytes to add.
    pub offset: i64,
}

/// One, two, three or four values to one, by lanes; the last argument of those that change a register.
pub type Map1 = fn(&Lanes) -> Lanes;
/// See [`Map1`].
pub type Map2 = fn(&Lanes, &Lanes) -> Lanes;
/// See [`Map1`].
pub type Map3 = fn(&Lanes, &Lanes, &Lanes) -> Lanes;
/// See [`Map1`].
pub type Map4 = fn(&Lanes, &Lanes, &Lanes, &Lanes) -> Lanes;
/// For which lanes a comparison holds.
pub type Compare = fn(&Lanes, &Lanes) -> u32;
/// What an atomic operation leaves, from what is there and what it is given.
pub type Update = fn(u64, u64) -> u64;

/// Where the value of a shuffle comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shuffle {
    /// Lanes before.
    Up,
    /// Lanes behind.
    Down,
    /// Lanes by exclusive or.
    Butterfly,
    /// Lanes by number.
    Index,
}

/// What lanes tell each other, all of them at once.
#[derive(Debug, Clone)]
pub enum Exchange {
    /// A value of another lane.
    Shuffle { way: Shuffle, to: Option<u32>, found: Option<u32>, value: Source, lane: Source, clamp: Source },
    /// For which lanes a predicate holds.
    Ballot { to: u32, of: Condition },
    /// Whether it holds for any, for all, or is the same for all.
    Vote { to: u32, any: bool, uniform: bool, of: Condition },
    /// All values to one.
    Reduce { to: u32, value: Source, by: Update },
    /// Lanes with the same value.
    Match { to: u32, value: Source },
}

/// What threads of a block find out at a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// How many have the predicate.
    Count(u32),
    /// Whether any has: a predicate.
    Any(u32),
    /// Whether all have: a predicate.
    All(u32),
}

/// What an instruction does.
#[derive(Debug, Clone)]
pub enum Operation {
    /// One value to one.
    Map1(Map1, u32, Source),
    /// Two values to one.
    Map2(Map2, u32, Source, Source),
    /// Three values to one.
    Map3(Map3, u32, Source, Source, Source),
    /// Four values to one.
    Map4(Map4, u32, Box<[Source; 4]>),
    /// A predicate, perhaps its opposite to another.
    Compare { by: Compare, to: Option<u32>, opposite: Option<u32>, a: Source, b: Source },
    /// One of two values.
    Select { to: u32, a: Source, b: Source, by: Condition },
    /// Predicates to one.
    Logic { by: fn(u32, u32) -> u32, to: u32, a: Condition, b: Condition },
    /// Low 32 bits of a product and a sum with the carry kept, or high 32 with that added, which stays.
    Carry { high: bool, to: u32, sources: Box<[Source; 3]> },
    /// Values of so many bits side by side to one, the first lowest.
    Pack { to: u32, bits: u32, from: Box<[Source]> },
    /// One value to several of so many bits.
    Unpack { to: Box<[Option<u32>]>, bits: u32, from: Source },
    /// Values of so many bytes, one behind the other, from memory.
    Load { to: Box<[Option<u32>]>, bytes: u32, extend: Option<Map1>, address: Address },
    /// The same to memory.
    Store { from: Box<[Source]>, bytes: u32, address: Address },
    /// Memory changed at once.
    Atomic { to: Option<u32>, by: Update, bytes: u32, address: Address, value: Source },
    /// Memory changed if it is as expected.
    Exchange { to: Option<u32>, bytes: u32, address: Address, expected: Source, value: Source },
    /// On elsewhere.
    Jump(u32),
    /// No further.
    Exit,
    /// Nothing is right any more.
    Trap,
    /// Lanes tell each other something: the members' mask and what.
    Among(Source, Box<Exchange>),
    /// Lanes wait for each other.
    Meet(Source),
    /// Lanes that are here.
    Active(u32),
    /// Threads of the block wait for each other: number of the barrier, threads if not all, what they find out of which
    /// predicate, and whether a warp's come together.
    Barrier { number: Source, threads: Option<Source>, reduction: Option<(Reduction, Condition)>, aligned: bool },
    /// A thread says that it is here, and does not wait.
    ClusterArrive,
    /// A thread waits until all of the cluster have said so.
    ClusterWait,
    /// The address of a place of shared memory in the cluster's block of that rank.
    Map { to: u32, address: Source, rank: Source },
    /// Bytes from one place to another begin to be copied: a few to shared memory, or many from there.
    Copy { to: Address, from: Address, bytes: Source, bulk: bool },
    /// The copies of one kind that have begun are a group.
    Group { bulk: bool },
    /// Waits for all copies of one kind, or for all groups but the last so many.
    Await { bulk: bool, but: Option<u32> },
    /// A line of so many bytes whose contents are not wanted any more.
    Discard { address: Address, bytes: u32 },
    /// Nothing that would show.
    Nothing,
}

/// An instruction.
#[derive(Debug, Clone)]
pub struct Instruction {
    /// For which lanes it is done.
    pub guard: Condition,
    /// What it does.
    pub operation: Operation,
    /// Number of the source file and line, 0 and 0 if unknown.
    pub line: (u32, u32),
}

/// A kernel, ready to run.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Instructions, the first at 0.
    pub instructions: Vec<Instruction>,
    /// Registers of a warp.
    pub registers: u32,
    /// Predicates of a warp.
    pub predicates: u32,
    /// Local memory of a lane in bytes.
    pub local: usize,
    /// Shared memory of a block in bytes, without what is asked for at launch.
    pub shared: usize,
    /// Offset and length in bytes of each parameter.
    pub parameters: Vec<(usize, usize)>,
    /// Most threads of a block.
    pub most_threads: u32,
    /// Blocks of a cluster, if it says.
    pub cluster: Option<[u32; 3]>,
    /// Names of source files by number.
    pub files: Arc<Vec<(u32, String)>>,
}

impl Program {
    /// Length of all parameters in bytes.
    pub fn parameter_bytes(&self) -> usize {
        self.parameters.last().map_or(0, |(offset, bytes)| offset + bytes)
    }

    /// File and line of an instruction, for people.
    pub fn place(&self, number: u32) -> String {
        let Some(instruction) = self.instructions.get(number as usize) else { return "behind its end".to_owned() };
        let (file, line) = instruction.line;
        let name = self.files.iter().find(|(number, _)| *number == file).map_or("unknown file", |(_, name)| name);
        format!("{name}:{line}")
    }
}
