//! PTX as text to functions: what the compiler of CUDA C++ leaves for the driver. Only reading; what instructions do is
//! [`crate::machine`]'s.

mod lexer;
mod parser;

pub use parser::parse;

/// Where a variable is kept, or what an address points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// Device memory.
    Global,
    /// Device memory that kernels do not write.
    Constant,
    /// A block's own.
    Shared,
    /// A thread's own.
    Local,
    /// Parameters of a kernel, or of a function that is called.
    Parameter,
}

/// A variable of a module, a function or a scope in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name; inside of functions made unique by a suffix where scopes share one.
    pub name: String,
    /// Where it is kept.
    pub space: Space,
    /// Its address is a multiple of that, in bytes.
    pub align: usize,
    /// Its length in bytes, 0 if it has none of its own (dynamic shared memory).
    pub bytes: usize,
    /// The first bytes of its contents; the others are 0.
    pub initial: Vec<u8>,
}

/// What a register holds, by which it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Register {
    /// True or false; the number of the predicate in its function, from 0.
    Predicate(u32),
    /// 16, 32 or 64 bits, zero-extended; the number of the register in its function, from 0, counted over all widths.
    Value(u32),
}

/// What an instruction works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Register(Register),
    /// A predicate's opposite, `!%p1`.
    Not(Register),
    /// The bits of a number: integers in two's complement of 64 bits, `0f` in the lower 32, `0d` in 64.
    Number(u64),
    /// `{%r1, %r2}`.
    Vector(Vec<Operand>),
    /// `[%rd1+8]`, `[name+8]`, `[16]`: what the address starts from, if anything, and the offset in bytes.
    Address(Option<Box<Operand>>, i64),
    /// A variable or function.
    Symbol(String),
    /// A special register without its `%`, as `tid.x`, `laneid`, `clock64`.
    Special(String),
    /// `%p1|%p2`, `%r1|%p1`: two results.
    Pair(Box<Operand>, Box<Operand>),
    /// `_`: a result that nobody wants.
    Nothing,
    /// `(a, b)`: parameters or results of a call.
    List(Vec<Operand>),
}

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// The predicate by which it is done, and whether that has to be false.
    pub guard: Option<(Register, bool)>,
    /// Name and all modifiers, as `add.s32`.
    pub opcode: String,
    /// Results, then what they are made of. A label to jump to is a [`Operand::Symbol`].
    pub operands: Vec<Operand>,
    /// Line of the source (the last `.loc`): file number and line, 0 and 0 if unknown.
    pub line: (u32, u32),
}

/// A part of a function's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// A place to jump to; made unique by a suffix where scopes share one.
    Label(String),
    /// An instruction.
    Instruction(Instruction),
}

/// A kernel, or a function that is called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Whether the host can launch it.
    pub kernel: bool,
    /// What it is given, in order.
    pub parameters: Vec<Variable>,
    /// What it returns.
    pub results: Vec<Variable>,
    /// Variables of its body, all scopes.
    pub variables: Vec<Variable>,
    /// Predicates that it uses.
    pub predicates: u32,
    /// Other registers that it uses.
    pub registers: u32,
    /// Bits of these, by declarations: the number of each one's first register and how many bits all of it have.
    pub widths: Vec<(u32, u32)>,
    /// Most threads of a block, if it says (`.maxntid`).
    pub most_threads: Option<u32>,
    /// Blocks of a cluster, if it says (`.reqnctapercluster`).
    pub cluster: Option<[u32; 3]>,
    /// Its body.
    pub body: Vec<Statement>,
}

impl Function {
    /// Bits of the register with this number.
    pub fn width(&self, register: u32) -> Option<u32> {
        let behind = self.widths.partition_point(|(first, _)| *first <= register);
        self.widths[..behind].last().map(|(_, bits)| *bits)
    }
}

/// A module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Module {
    /// Architecture that it was compiled for, as 90.
    pub target: u32,
    /// Variables outside of functions.
    pub variables: Vec<Variable>,
    /// Functions with a body.
    pub functions: Vec<Function>,
    /// Names of source files by number (`.file`).
    pub files: Vec<(u32, String)>,
}
