//! Translates a function's statements to a program: resolves names and inlines called functions.

mod control;
mod memory;
mod values;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::program::{Address, Condition, Instruction, Operation, Program, Side, Source, Space, Special};
use super::registers;
use crate::ptx::{self, Function, Module, Operand, Register, Statement, Variable};

/// Maximum bytes of a kernel's parameters (CUDA C++ Programming Guide, table of technical specifications).
const MOST_PARAMETER_BYTES: usize = 32_764;

/// Maximum depth of calls. A recursive function is inlined up to this depth, and a deeper call stops the kernel.
const MOST_DEPTH: usize = 32;

/// Maximum number of instructions of a program.
const MOST_INSTRUCTIONS: usize = 1 << 22;

/// Maximum threads of a block.
const MOST_THREADS: u32 = 1024;

/// The operation that an instruction is translated to.
type Made = Result<Operation, String>;

/// The location of a variable.
#[derive(Debug, Clone, Copy)]
enum Place {
    Local(u64),
    Parameter(u64),
}

/// A function that is being inlined.
struct Frame<'a> {
    function: &'a Function,
    variables: HashMap<&'a str, Place>,
    register: u32,
    predicate: u32,
    labels: HashMap<&'a str, u32>,
    /// Jumps whose labels have not been resolved.
    jumps: Vec<(usize, &'a str)>,
    /// Jumps to the end of the function.
    returns: Vec<usize>,
    depth: usize,
    kernel: bool,
}

struct Assembler<'a> {
    functions: HashMap<&'a str, &'a Function>,
    /// Addresses of the module's variables, except those in shared memory.
    variables: &'a HashMap<String, u64>,
    shared: HashMap<&'a str, u64>,
    program: Program,
}

/// Translates kernel `function` of a module whose variables are at these addresses.
///
/// # Errors
/// Returns a message with the unsupported construct and its line.
pub fn assemble(module: &Module, function: &Function, variables: &HashMap<String, u64>) -> Result<Program, String> {
    let functions: HashMap<&str, &Function> = module.functions.iter().map(|one| (one.name.as_str(), one)).collect();
    let parameters = layout(&function.parameters);
    if parameters.last().is_some_and(|(offset, bytes)| offset + bytes > MOST_PARAMETER_BYTES) {
        return Err(format!("kernel {} has more than {MOST_PARAMETER_BYTES} bytes of parameters", function.name));
    }
    let used = symbols(function, &functions);
    let (shared, bytes) = place_shared(module, function, &functions, &used);
    let program = Program {
        name: function.name.clone(),
        instructions: Vec::new(),
        registers: 0,
        predicates: 0,
        local: 0,
        shared: bytes,
        parameters: parameters.clone(),
        most_threads: function.most_threads.unwrap_or(MOST_THREADS).min(MOST_THREADS),
        cluster: function.cluster,
        files: Arc::new(module.files.clone()),
    };
    let mut assembler = Assembler { functions, variables, shared, program };
    let places = parameters.iter().map(|(offset, _)| Place::Parameter(*offset as u64));
    let names = function.parameters.iter().map(|parameter| parameter.name.as_str()).zip(places).collect();
    assembler.put(function, names, 0)?;
    assembler.emit(Condition::Constant(true), Operation::Exit, (0, 0));
    let mut program = assembler.program;
    registers::share(&mut program);
    Ok(program)
}

/// Returns the offset and the length of each variable, which are placed one after another.
fn layout(variables: &[Variable]) -> Vec<(usize, usize)> {
    let mut end = 0_usize;
    let place = |variable: &Variable| {
        let offset = end.next_multiple_of(variable.align.max(1));
        end = offset + variable.bytes;
        (offset, variable.bytes)
    };
    variables.iter().map(place).collect()
}

/// Returns the names that a function and the functions called by it use.
fn symbols<'a>(function: &'a Function, functions: &HashMap<&str, &'a Function>) -> HashSet<&'a str> {
    let mut used = HashSet::new();
    let mut left = vec![function];
    while let Some(function) = left.pop() {
        let mut mentioned = HashSet::new();
        for statement in &function.body {
            if let Statement::Instruction(instruction) = statement {
                instruction.operands.iter().for_each(|operand| names_in(operand, &mut mentioned));
            }
        }
        let new = mentioned.into_iter().filter(|name| used.insert(*name));
        left.extend(new.filter_map(|name| functions.get(name)));
    }
    used
}

fn names_in<'a>(operand: &'a Operand, used: &mut HashSet<&'a str>) {
    match operand {
        Operand::Symbol(name) => _ = used.insert(name),
        Operand::Address(Some(base), _) => names_in(base, used),
        Operand::Vector(parts) | Operand::List(parts) => parts.iter().for_each(|part| names_in(part, used)),
        _ => {}
    }
}

/// Returns the offsets of the used variables in shared memory, and their total length. Variables of unspecified length
/// (dynamic shared memory) come last and are not included in the length.
fn place_shared<'a>(
    module: &'a Module,
    function: &'a Function,
    functions: &HashMap<&str, &'a Function>,
    used: &HashSet<&str>,
) -> (HashMap<&'a str, u64>, usize) {
    let called = used.iter().filter_map(|name| functions.get(name)).copied();
    let inside = called.chain([function]).flat_map(|one| &one.variables);
    let all = module
        .variables
        .iter()
        .chain(inside)
        .filter(|one| one.space == ptx::Space::Shared && used.contains(one.name.as_str()));
    let (fixed, open): (Vec<_>, Vec<_>) = all.partition(|one| one.bytes > 0);
    let mut end = 0_usize;
    let mut places = HashMap::new();
    for one in fixed {
        let offset = end.next_multiple_of(one.align.max(1));
        places.insert(one.name.as_str(), offset as u64);
        end = offset + one.bytes;
    }
    // All variables of unspecified length start at the end of the others.
    let end = open.iter().fold(end, |end, one| end.next_multiple_of(one.align.max(1)));
    places.extend(open.iter().map(|one| (one.name.as_str(), end as u64)));
    (places, end)
}

impl<'a> Assembler<'a> {
    fn emit(&mut self, guard: Condition, operation: Operation, line: (u32, u32)) -> usize {
        self.program.instructions.push(Instruction { guard, operation, line });
        self.program.instructions.len() - 1
    }

    fn here(&self) -> u32 {
        self.program.instructions.len() as u32
    }

    /// Inlines a function whose parameters and results are at `variables`.
    fn put(&mut self, function: &'a Function, variables: HashMap<&'a str, Place>, depth: usize) -> Result<(), String> {
        if depth > MOST_DEPTH {
            self.emit(Condition::Constant(true), Operation::Trap, (0, 0));
            return Ok(());
        }
        if self.program.instructions.len() > MOST_INSTRUCTIONS {
            return Err(format!("more than {MOST_INSTRUCTIONS} instructions"));
        }
        let mut frame = Frame {
            function,
            variables,
            register: self.program.registers,
            predicate: self.program.predicates,
            labels: HashMap::new(),
            jumps: Vec::new(),
            returns: Vec::new(),
            depth,
            kernel: depth == 0,
        };
        self.program.registers += function.registers;
        self.program.predicates += function.predicates;
        for variable in function.variables.iter().filter(|one| one.space != ptx::Space::Shared) {
            let offset = self.program.local.next_multiple_of(variable.align.max(1));
            self.program.local = (offset + variable.bytes).next_multiple_of(8);
            frame.variables.insert(&variable.name, Place::Local(offset as u64));
        }
        for statement in &function.body {
            match statement {
                Statement::Label(name) => _ = frame.labels.insert(name, self.here()),
                Statement::Instruction(one) => self
                    .instruction(&mut frame, one)
                    .map_err(|error| format!("{}: {} {:?}: {error}", function.name, one.opcode, one.operands))?,
            }
        }
        let end = self.here();
        for (jump, label) in frame.jumps {
            let target =
                frame.labels.get(label).copied().ok_or_else(|| format!("{}: no label {label}", function.name))?;
            self.program.instructions[jump].operation = Operation::Jump(target);
        }
        for jump in frame.returns {
            self.program.instructions[jump].operation = Operation::Jump(end);
        }
        Ok(())
    }

    fn instruction(&mut self, frame: &mut Frame<'a>, one: &'a ptx::Instruction) -> Result<(), String> {
        let guard = match one.guard {
            None => Condition::Constant(true),
            Some((register, negated)) => frame.condition(register, negated)?,
        };
        let words: Vec<&str> = one.opcode.split('.').collect();
        if words[0] == "call" {
            return self.call(frame, guard, one);
        }
        if matches!(words[0], "bra" | "ret") {
            return self.jump(frame, guard, one);
        }
        let operation = control::operation(self, frame, &words, &one.operands)
            .or_else(|| memory::operation(self, frame, &words, &one.operands))
            .or_else(|| values::operation(self, frame, &one.opcode, &words, &one.operands))
            .unwrap_or_else(|| Err("no such instruction here".to_owned()))?;
        self.emit(guard, operation, one.line);
        Ok(())
    }

    fn jump(&mut self, frame: &mut Frame<'a>, guard: Condition, one: &'a ptx::Instruction) -> Result<(), String> {
        let place = self.emit(guard, Operation::Exit, one.line);
        match one.operands.as_slice() {
            [Operand::Symbol(label)] => frame.jumps.push((place, label)),
            [] if frame.kernel => {}
            [] => frame.returns.push(place),
            _ => return Err("no label".to_owned()),
        }
        Ok(())
    }

    /// Inlines a call. The variables that the call names serve as parameters and results, because the caller does not
    /// use them otherwise.
    fn call(&mut self, frame: &mut Frame<'a>, guard: Condition, one: &'a ptx::Instruction) -> Result<(), String> {
        let [Operand::List(results), Operand::Symbol(name), Operand::List(parameters)] = one.operands.as_slice() else {
            return Err("only calls of functions by name".to_owned());
        };
        let function = *self.functions.get(name.as_str()).ok_or_else(|| format!("no function {name}"))?;
        if results.len() != function.results.len() || parameters.len() != function.parameters.len() {
            return Err(format!("function {name} has other parameters"));
        }
        let mut variables = HashMap::new();
        let formal = function.results.iter().chain(&function.parameters);
        for (formal, actual) in formal.zip(results.iter().chain(parameters)) {
            let Operand::Symbol(actual) = actual else { return Err("a parameter that is no variable".to_owned()) };
            let place = frame.variables.get(actual.as_str()).ok_or_else(|| format!("no variable {actual}"))?;
            variables.insert(formal.name.as_str(), *place);
        }
        let around = match guard {
            Condition::Constant(true) => None,
            Condition::If(number) => Some(Condition::Unless(number)),
            Condition::Unless(number) => Some(Condition::If(number)),
            Condition::Constant(false) => return Ok(()),
        };
        let jump = around.map(|unless| self.emit(unless, Operation::Nothing, one.line));
        self.put(function, variables, frame.depth + 1)?;
        if let Some(jump) = jump {
            self.program.instructions[jump].operation = Operation::Jump(self.here());
        }
        Ok(())
    }

    fn source(&self, frame: &Frame<'a>, operand: &Operand, bits: u32) -> Result<Source, String> {
        let cut = |number: u64| number & u64::MAX >> (64 - bits);
        Ok(match operand {
            Operand::Register(Register::Value(number)) => Source::Register(frame.register + number),
            Operand::Number(number) => Source::Number(cut(*number)),
            Operand::Special(name) => Source::Special(special(name)?),
            Operand::Symbol(name) => self.symbol(frame, name)?,
            Operand::Address(Some(base), 0) => self.source(frame, base, bits)?,
            other => return Err(format!("{other:?} is no value")),
        })
    }

    fn symbol(&self, frame: &Frame<'a>, name: &str) -> Result<Source, String> {
        match frame.variables.get(name) {
            Some(Place::Local(offset)) => return Ok(Source::Local(*offset)),
            Some(Place::Parameter(offset)) => return Ok(Source::Parameter(*offset)),
            None => {}
        }
        let number = self.shared.get(name).or_else(|| self.variables.get(name));
        number.map(|number| Source::Number(*number)).ok_or_else(|| format!("no variable {name}"))
    }

    /// Translates an address operand for this state space. Parameters of called functions are in local memory.
    fn address(&self, frame: &Frame<'a>, operand: &Operand, space: Space) -> Result<Address, String> {
        let Operand::Address(base, offset) = operand else { return Err("no address".to_owned()) };
        let base = match base {
            Some(base) => self.source(frame, base, 64)?,
            None => Source::Number(0),
        };
        let space = match (space, base) {
            (Space::Parameter, Source::Local(_)) => Space::Local,
            _ => space,
        };
        Ok(Address { space, base, offset: *offset })
    }
}

impl Frame<'_> {
    fn condition(&self, register: Register, negated: bool) -> Result<Condition, String> {
        let Register::Predicate(number) = register else {
            return Err("a value where a predicate should be".to_owned());
        };
        let number = self.predicate + number;
        Ok(if negated { Condition::Unless(number) } else { Condition::If(number) })
    }

    /// Returns the condition of a predicate operand.
    fn operand_condition(&self, operand: &Operand) -> Result<Condition, String> {
        match operand {
            Operand::Register(register) => self.condition(*register, false),
            Operand::Not(register) => self.condition(*register, true),
            Operand::Number(number) => Ok(Condition::Constant(*number != 0)),
            other => Err(format!("{other:?} is no predicate")),
        }
    }

    /// Returns the register that an operand writes.
    fn result(&self, operand: &Operand) -> Result<u32, String> {
        match operand {
            Operand::Register(Register::Value(number)) => Ok(self.register + number),
            other => Err(format!("{other:?} is no register")),
        }
    }

    /// Returns the bits of the registers that are written, which must be equal; `None` if no result is used.
    fn width(&self, operands: &[Operand]) -> Result<Option<u32>, String> {
        let mut widths = operands.iter().filter_map(|operand| match operand {
            Operand::Register(Register::Value(number)) => self.function.width(*number),
            _ => None,
        });
        let first = widths.next();
        if widths.any(|width| Some(width) != first) { Err("registers of several widths".to_owned()) } else { Ok(first) }
    }

    /// Returns the register that an operand writes, or `None` if the result is not used.
    fn optional_result(&self, operand: &Operand) -> Result<Option<u32>, String> {
        if *operand == Operand::Nothing { Ok(None) } else { self.result(operand).map(Some) }
    }

    /// Returns the predicate that an operand writes.
    fn predicate(&self, operand: &Operand) -> Result<u32, String> {
        match operand {
            Operand::Register(Register::Predicate(number)) => Ok(self.predicate + number),
            other => Err(format!("{other:?} is no predicate")),
        }
    }
}

fn special(name: &str) -> Result<Special, String> {
    let axis = |special: fn(usize) -> Special| match name.rsplit('.').next() {
        Some("x") => Ok(special(0)),
        Some("y") => Ok(special(1)),
        Some("z") => Ok(special(2)),
        _ => Err(format!("no axis in %{name}")),
    };
    match name.split('.').next().unwrap_or_default() {
        "tid" => axis(Special::Thread),
        "ntid" => axis(Special::Threads),
        "ctaid" => axis(Special::Block),
        "nctaid" => axis(Special::Blocks),
        "laneid" => Ok(Special::Lane),
        "warpid" => Ok(Special::Warp),
        "lanemask_eq" => Ok(Special::Lanes(Side::Own)),
        "lanemask_lt" => Ok(Special::Lanes(Side::Before)),
        "lanemask_le" => Ok(Special::Lanes(Side::Through)),
        "lanemask_gt" => Ok(Special::Lanes(Side::Behind)),
        "lanemask_ge" => Ok(Special::Lanes(Side::From)),
        "clock" | "clock64" => Ok(Special::Clock),
        "globaltimer" => Ok(Special::Timer),
        "cluster_ctarank" => Ok(Special::Rank),
        _ => Err(format!("no register %{name} here")),
    }
}
