//! Parsed PTX, the code that the compiler of CUDA C++ generates for the driver. [`crate::machine`] defines the meaning
//! of instructions.

mod lexer;
mod parser;

pub use parser::parse;

/// The state space of a variable or an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// Device memory.
    Global,
    /// Device memory that kernels only read.
    Constant,
    /// Shared memory of a block.
    Shared,
    /// Local memory of a thread.
    Local,
    /// Parameters of a kernel or of a called function.
    Parameter,
}

/// A variable of a module, a function or a scope in a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Name of the variable. In functions a suffix makes it unique if several scopes declare it.
    pub name: String,
    /// State space of the variable.
    pub space: Space,
    /// Alignment of the address in bytes.
    pub align: usize,
    /// Length in bytes; 0 if it is unspecified (dynamic shared memory).
    pub bytes: usize,
    /// The first bytes of the initial value; the others are 0.
    pub initial: Vec<u8>,
}

/// A register. Predicates and other registers are numbered separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Register {
    /// A predicate with its number in the function, from 0.
    Predicate(u32),
    /// A register of 16, 32 or 64 bits, zero-extended, with its number in the function, from 0, over all widths.
    Value(u32),
}

/// An operand of an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Register(Register),
    /// The negation of a predicate, `!%p1`.
    Not(Register),
    /// The bits of a number: integers in two's complement of 64 bits, `0f` floats in the lower 32 bits, `0d` floats in
    /// 64.
    Number(u64),
    /// A vector, such as `{%r1, %r2}`.
    Vector(Vec<Operand>),
    /// An address such as `[%rd1+8]`, `[name+8]` or `[16]`: its base, if there is one, and the offset in bytes.
    Address(Option<Box<Operand>>, i64),
    /// The name of a variable or a function.
    Symbol(String),
    /// A special register without its `%`, such as `tid.x`, `laneid` or `clock64`.
    Special(String),
    /// Two results, such as `%p1|%p2` or `%r1|%p1`.
    Pair(Box<Operand>, Box<Operand>),
    /// A result that is discarded, `_`.
    Nothing,
    /// Parameters or results of a call, `(a, b)`.
    List(Vec<Operand>),
}

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// The predicate that guards the instruction, and whether it is negated.
    pub guard: Option<(Register, bool)>,
    /// Name with all modifiers, such as `add.s32`.
    pub opcode: String,
    /// Results, followed by sources. The label of a jump is an [`Operand::Symbol`].
    pub operands: Vec<Operand>,
    /// File number and line of the source (the last `.loc`), 0 and 0 if unknown.
    pub line: (u32, u32),
}

/// A statement of a function's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// A label. A suffix makes it unique if several scopes declare it.
    Label(String),
    /// An instruction.
    Instruction(Instruction),
}

/// A kernel, or a function that kernels call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Function {
    /// Name of the function.
    pub name: String,
    /// Whether the function is a kernel, which the host can launch.
    pub kernel: bool,
    /// Parameters in order.
    pub parameters: Vec<Variable>,
    /// Returned values.
    pub results: Vec<Variable>,
    /// Variables of all scopes of the body.
    pub variables: Vec<Variable>,
    /// Number of predicates.
    pub predicates: u32,
    /// Number of other registers.
    pub registers: u32,
    /// Bits of the other registers: the first register of each declaration, and the bits of all of its registers.
    pub widths: Vec<(u32, u32)>,
    /// Maximum threads of a block, if specified (`.maxntid`).
    pub most_threads: Option<u32>,
    /// Blocks of a cluster, if specified (`.reqnctapercluster`).
    pub cluster: Option<[u32; 3]>,
    /// Statements of the body.
    pub body: Vec<Statement>,
}

impl Function {
    /// Returns the bits of the register with this number.
    pub fn width(&self, register: u32) -> Option<u32> {
        let behind = self.widths.partition_point(|(first, _)| *first <= register);
        self.widths[..behind].last().map(|(_, bits)| *bits)
    }
}

/// A parsed module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Module {
    /// Architecture that the module was compiled for, such as 90.
    pub target: u32,
    /// Variables outside of functions.
    pub variables: Vec<Variable>,
    /// Functions with a body.
    pub functions: Vec<Function>,
    /// Names of source files by number (`.file`).
    pub files: Vec<(u32, String)>,
}
