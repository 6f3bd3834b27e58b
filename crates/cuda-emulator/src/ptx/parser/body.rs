//! Parses the bodies of functions.

use super::super::lexer::{Failure, Token};
use super::super::{Function, Instruction, Operand, Register, Space, Statement};
use super::cursor::Cursor;
use super::scope::{Jump, Meaning, Scopes};

/// Maximum nesting of scopes, all of which are searched for a name or a label.
const MOST_SCOPES: usize = 1000;

/// Parses a body from its opening to its closing brace.
pub fn read<'a>(cursor: &mut Cursor<'a>, function: &mut Function, line: (u32, u32)) -> Result<(), Failure> {
    let mut body = Body { cursor, function, scopes: Scopes::default(), line, opcode: "" };
    body.open()?;
    while body.scopes.depth() > 0 {
        body.statement()?;
    }
    body.function.predicates = body.scopes.predicates;
    body.function.registers = body.scopes.registers;
    body.function.widths = std::mem::take(&mut body.scopes.widths);
    Ok(())
}

/// The state of parsing a body.
struct Body<'a, 'b> {
    cursor: &'b mut Cursor<'a>,
    function: &'b mut Function,
    scopes: Scopes<'a>,
    /// File and line of the last `.loc` directive.
    line: (u32, u32),
    /// Opcode of the instruction that is being parsed.
    opcode: &'a str,
}

impl<'a> Body<'a, '_> {
    fn open(&mut self) -> Result<(), Failure> {
        if self.scopes.depth() == MOST_SCOPES {
            return self.cursor.fail("too many braces in braces");
        }
        self.cursor.expect(b'{')?;
        self.scopes.open();
        Ok(())
    }

    fn close(&mut self) -> Result<(), Failure> {
        for (statement, label) in self.scopes.close()? {
            if let Some(Statement::Instruction(jump)) = self.function.body.get_mut(statement) {
                jump.operands = vec![Operand::Symbol(label)];
            }
        }
        self.cursor.expect(b'}')
    }

    fn statement(&mut self) -> Result<(), Failure> {
        match self.cursor.token() {
            Token::Mark(b'{') => self.open(),
            Token::Mark(b'}') => self.close(),
            Token::Mark(b';') => self.cursor.advance(),
            Token::Mark(b'@') => self.guarded(),
            Token::Word(word) if word.starts_with('.') => self.directive(),
            Token::Word(_) => self.label_or_instruction(),
            _ => self.cursor.miss("an instruction"),
        }
    }

    fn directive(&mut self) -> Result<(), Failure> {
        let (at, word) = (self.cursor.at(), self.cursor.directive()?);
        match word {
            ".loc" => {
                self.line = self.cursor.location()?;
                Ok(())
            }
            ".reg" => self.registers(),
            ".param" => self.variable(Space::Parameter),
            ".local" => self.variable(Space::Local),
            ".shared" => self.variable(Space::Shared),
            ".global" => self.variable(Space::Global),
            ".const" => self.variable(Space::Constant),
            ".pragma" => self.cursor.pragma(),
            _ => Err(Failure::new(at, format!("{word} in a function is not understood"))),
        }
    }

    fn variable(&mut self, space: Space) -> Result<(), Failure> {
        let at = self.cursor.at();
        let (name, mut variable) = self.cursor.variable(space, false)?;
        variable.name = self.scopes.add_variable(name).ok_or_else(|| twice(at, name))?;
        // Variables of inner scopes have been renamed and only hide the parameter.
        if self.function.parameters.iter().chain(&self.function.results).any(|other| other.name == variable.name) {
            return Err(twice(at, name));
        }
        self.function.variables.push(variable);
        Ok(())
    }

    /// Parses the declaration of registers, such as `.reg .b32 %r<5>, a;`.
    fn registers(&mut self) -> Result<(), Failure> {
        let (at, kind) = (self.cursor.at(), self.cursor.directive()?);
        let width = match kind {
            ".pred" => None,
            ".u16" | ".s16" | ".b16" | ".f16" | ".bf16" => Some(16),
            ".u32" | ".s32" | ".b32" | ".f32" | ".f16x2" | ".bf16x2" => Some(32),
            ".u64" | ".s64" | ".b64" | ".f64" => Some(64),
            _ => return Err(Failure::new(at, format!("registers of {kind} are not understood"))),
        };
        loop {
            self.register(width)?;
            if !self.cursor.take(b',')? {
                return self.cursor.expect(b';');
            }
        }
    }

    /// Parses one name of a declaration and adds its register or range of registers of `width` bits; `None` for
    /// predicates.
    fn register(&mut self, width: Option<u32>) -> Result<(), Failure> {
        let (at, name) = (self.cursor.at(), self.cursor.word()?);
        let added = if self.cursor.take(b'<')? {
            let count = self.cursor.small()?;
            self.cursor.expect(b'>')?;
            self.scopes.add_registers(name, count, width)
        } else {
            self.scopes.add_register(name, width)
        };
        added.ok_or_else(|| twice(at, name))
    }

    /// Parses an instruction with a guard, such as `@!%p1 bra $L;`.
    fn guarded(&mut self) -> Result<(), Failure> {
        self.cursor.expect(b'@')?;
        let negated = self.cursor.take(b'!')?;
        let at = self.cursor.at();
        let name = self.cursor.word()?;
        let Some(Meaning::Register(register @ Register::Predicate(_))) = self.scopes.find(name) else {
            return Err(Failure::new(at, format!("{name} is no predicate")));
        };
        let (at, opcode) = (self.cursor.at(), self.cursor.word()?);
        self.instruction(at, opcode, Some((register, negated)))
    }

    fn label_or_instruction(&mut self) -> Result<(), Failure> {
        let (at, word) = (self.cursor.at(), self.cursor.word()?);
        if !self.cursor.take(b':')? {
            return self.instruction(at, word, None);
        }
        let label = self.scopes.add_label(word).ok_or_else(|| twice(at, word))?;
        self.function.body.push(Statement::Label(label));
        Ok(())
    }

    fn instruction(&mut self, at: usize, opcode: &'a str, guard: Option<(Register, bool)>) -> Result<(), Failure> {
        if !opcode.starts_with(|first: char| first.is_ascii_lowercase()) {
            return Err(Failure::new(at, format!("{opcode} is no instruction")));
        }
        self.opcode = opcode;
        let operands = match opcode.split('.').next() {
            Some("call") => self.call()?,
            Some("bra") => self.jump()?,
            Some("brx") => return Err(Failure::new(at, "jumps by a table are not supported")),
            _ => self.operands()?,
        };
        let opcode = opcode.to_owned();
        self.function.body.push(Statement::Instruction(Instruction { guard, opcode, operands, line: self.line }));
        Ok(())
    }

    /// Parses the operand of a jump. Its label is resolved when the scope ends, because it may follow later.
    fn jump(&mut self) -> Result<Vec<Operand>, Failure> {
        let (at, label) = (self.cursor.at(), self.cursor.word()?);
        self.cursor.expect(b';')?;
        self.scopes.add_jump(Jump { statement: self.function.body.len(), at, label });
        Ok(vec![Operand::Symbol(label.to_owned())])
    }

    /// Parses `call.uni (results), name, (parameters);`.
    fn call(&mut self) -> Result<Vec<Operand>, Failure> {
        let mut results = Vec::new();
        if self.cursor.take(b'(')? {
            results = self.sequence(b')')?;
            self.cursor.expect(b',')?;
        }
        let (at, name) = (self.cursor.at(), self.cursor.word()?);
        if name.starts_with('%') || self.scopes.find(name).is_some() {
            return Err(Failure::new(at, format!("{name} is no function: calls by pointer are not supported")));
        }
        let mut parameters = Vec::new();
        if self.cursor.take(b',')? {
            self.cursor.expect(b'(')?;
            parameters = self.sequence(b')')?;
        }
        self.cursor.expect(b';')?;
        Ok(vec![Operand::List(results), Operand::Symbol(name.to_owned()), Operand::List(parameters)])
    }

    fn operands(&mut self) -> Result<Vec<Operand>, Failure> {
        let mut operands = Vec::new();
        if self.cursor.take(b';')? {
            return Ok(operands);
        }
        loop {
            operands.push(self.operand()?);
            if !self.cursor.take(b',')? {
                self.cursor.expect(b';')?;
                return Ok(operands);
            }
        }
    }

    fn operand(&mut self) -> Result<Operand, Failure> {
        match self.cursor.token() {
            Token::Mark(b'[') => self.address(),
            Token::Mark(b'{') => {
                self.cursor.advance()?;
                Ok(Operand::Vector(self.sequence(b'}')?))
            }
            Token::Mark(b'!') => self.opposite(),
            _ => {
                let first = self.single()?;
                if !self.cursor.take(b'|')? {
                    return Ok(first);
                }
                Ok(Operand::Pair(Box::new(first), Box::new(self.single()?)))
            }
        }
    }

    /// Parses the operands between an opening bracket, which has been read, and the bracket `end`.
    fn sequence(&mut self, end: u8) -> Result<Vec<Operand>, Failure> {
        let mut operands = Vec::new();
        if self.cursor.take(end)? {
            return Ok(operands);
        }
        loop {
            operands.push(self.single()?);
            if !self.cursor.take(b',')? {
                self.cursor.expect(end)?;
                return Ok(operands);
            }
        }
    }

    fn opposite(&mut self) -> Result<Operand, Failure> {
        self.cursor.expect(b'!')?;
        let at = self.cursor.at();
        match self.single()? {
            Operand::Register(register) => Ok(Operand::Not(register)),
            _ => Err(Failure::new(at, "only registers have an opposite")),
        }
    }

    fn address(&mut self) -> Result<Operand, Failure> {
        self.cursor.expect(b'[')?;
        let at = self.cursor.at();
        let (base, mut offset) = match self.cursor.token() {
            Token::Word(name) => match self.single()? {
                base @ (Operand::Register(_) | Operand::Symbol(_)) => (Some(Box::new(base)), 0),
                _ => return Err(Failure::new(at, format!("{name} is no address"))),
            },
            _ => (None, self.cursor.integer()? as i64),
        };
        loop {
            // A minus sign belongs to the number, as in `[%rd1+-8]` and `[%rd1-8]`.
            let plus = self.cursor.take(b'+')?;
            if !plus && self.cursor.token() != Token::Mark(b'-') {
                break;
            }
            offset = offset.wrapping_add(self.cursor.integer()? as i64);
        }
        self.cursor.expect(b']')?;
        Ok(Operand::Address(base, offset))
    }

    /// Parses a name or a number.
    fn single(&mut self) -> Result<Operand, Failure> {
        let (at, name) = match self.cursor.token() {
            Token::Word(name) => (self.cursor.at(), name),
            Token::Number(_) | Token::Mark(b'-') => {
                let single = self.opcode.ends_with(".f32");
                return Ok(Operand::Number(self.cursor.number()?.operand(single)));
            }
            _ => return self.cursor.miss("an operand"),
        };
        self.cursor.advance()?;
        Ok(match self.scopes.find(name) {
            Some(Meaning::Register(register)) => Operand::Register(register),
            Some(Meaning::Variable(name)) => Operand::Symbol(name),
            None => unknown(name).ok_or_else(|| Failure::new(at, format!("{name} is not understood")))?,
        })
    }
}

/// Returns the operand for a name that no scope declares: a special register or a symbol.
fn unknown(name: &str) -> Option<Operand> {
    match name {
        "_" => Some(Operand::Nothing),
        "WARP_SZ" => Some(Operand::Number(32)),
        _ if name.starts_with('.') => None,
        _ => Some(match name.strip_prefix('%') {
            Some(special) => Operand::Special(special.to_owned()),
            None => Operand::Symbol(name.to_owned()),
        }),
    }
}

fn twice(at: usize, name: &str) -> Failure {
    Failure::new(at, format!("{name} is declared twice, or there are too many registers"))
}
