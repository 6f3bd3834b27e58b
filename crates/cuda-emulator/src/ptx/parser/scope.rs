//! Scopes of names in a function, which braces delimit.

use std::collections::{HashMap, HashSet};

use super::super::Register;
use super::super::lexer::Failure;

/// The declaration that a name refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// A register.
    Register(Register),
    /// A variable with its unique name.
    Variable(String),
}

/// A jump whose label has not been found yet.
#[derive(Debug, Clone, Copy)]
pub struct Jump<'a> {
    /// Index of the jump statement.
    pub statement: usize,
    /// Position of the label operand in the text, in bytes.
    pub at: usize,
    /// The label as written.
    pub label: &'a str,
}

/// The declaration of a single name in a scope.
enum Named {
    Register(Register),
    Variable,
}

/// A declared range of registers: `%r<5>` declares `%r0` to `%r4`.
struct Family<'a> {
    prefix: &'a str,
    first: Register,
    count: u32,
}

impl Family<'_> {
    fn find(&self, name: &str) -> Option<Register> {
        let digits = name.strip_prefix(self.prefix)?;
        let canonical = digits.len() == 1 || !digits.starts_with('0');
        let number = (canonical && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?;
        number.filter(|&number: &u32| number < self.count).map(|number| match self.first {
            Register::Predicate(first) => Register::Predicate(first + number),
            Register::Value(first) => Register::Value(first + number),
        })
    }
}

/// A scope between braces.
#[derive(Default)]
struct Scope<'a> {
    /// Number of the scope; 0 is the whole body, whose names are not changed.
    number: u32,
    families: Vec<Family<'a>>,
    names: HashMap<&'a str, Named>,
    labels: HashSet<&'a str>,
    jumps: Vec<Jump<'a>>,
}

impl Scope<'_> {
    fn unique(&self, name: &str) -> String {
        if self.number == 0 { name.to_owned() } else { format!("{name}#{}", self.number) }
    }

    fn find(&self, name: &str) -> Option<Meaning> {
        match self.names.get(name) {
            Some(Named::Register(register)) => Some(Meaning::Register(*register)),
            Some(Named::Variable) => Some(Meaning::Variable(self.unique(name))),
            None => self.families.iter().find_map(|family| family.find(name)).map(Meaning::Register),
        }
    }
}

/// The open scopes, and the number of registers declared so far.
#[derive(Default)]
pub struct Scopes<'a> {
    open: Vec<Scope<'a>>,
    opened: u32,
    /// Number of predicates of the function.
    pub predicates: u32,
    /// Number of other registers of the function.
    pub registers: u32,
    /// First register and bits of each declaration of other registers.
    pub widths: Vec<(u32, u32)>,
}

impl<'a> Scopes<'a> {
    /// Opens a scope at `{`.
    pub fn open(&mut self) {
        self.open.push(Scope { number: self.opened, ..Scope::default() });
        self.opened += 1;
    }

    /// Returns the number of open scopes.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Closes a scope at `}`. Returns the jumps whose labels are in the scope, with the unique names of these labels.
    /// Other jumps move to the enclosing scope, whose label may follow later.
    pub fn close(&mut self) -> Result<Vec<(usize, String)>, Failure> {
        let Some(mut scope) = self.open.pop() else { return Ok(Vec::new()) };
        let jumps = std::mem::take(&mut scope.jumps);
        let (found, others): (Vec<_>, Vec<_>) = jumps.into_iter().partition(|jump| scope.labels.contains(jump.label));
        match (self.open.last_mut(), others.first()) {
            (Some(around), _) => around.jumps.extend(others),
            (None, Some(lost)) => return Err(Failure::new(lost.at, format!("there is no label {}", lost.label))),
            (None, None) => {}
        }
        // Labels of the whole body keep their names.
        let renamed = found.into_iter().filter(|_| scope.number != 0);
        Ok(renamed.map(|jump| (jump.statement, scope.unique(jump.label))).collect())
    }

    /// Returns the declaration that a name refers to in the current scope.
    pub fn find(&self, name: &str) -> Option<Meaning> {
        self.open.iter().rev().find_map(|scope| scope.find(name))
    }

    /// Declares a variable and returns its unique name, or `None` if the scope already has the name.
    pub fn add_variable(&mut self, name: &'a str) -> Option<String> {
        let scope = self.open.last_mut()?;
        scope.names.insert(name, Named::Variable).is_none().then(|| scope.unique(name))
    }

    /// Declares a label and returns its unique name, or `None` if the scope already has it.
    pub fn add_label(&mut self, name: &'a str) -> Option<String> {
        let scope = self.open.last_mut()?;
        scope.labels.insert(name).then(|| scope.unique(name))
    }

    /// Adds a jump to a label that may follow later.
    pub fn add_jump(&mut self, jump: Jump<'a>) {
        if let Some(scope) = self.open.last_mut() {
            scope.jumps.push(jump);
        }
    }

    /// Declares a register of `width` bits, or a predicate if that is `None`. Returns `None` if the scope already has
    /// the name or there are too many registers.
    pub fn add_register(&mut self, name: &'a str, width: Option<u32>) -> Option<()> {
        let register = self.count(width, 1)?;
        let names = &mut self.open.last_mut()?.names;
        names.insert(name, Named::Register(register)).is_none().then_some(())
    }

    /// Declares `count` registers, named `prefix` and a number. Returns `None` if the scope already has them or there
    /// are too many registers.
    pub fn add_registers(&mut self, prefix: &'a str, count: u32, width: Option<u32>) -> Option<()> {
        let first = self.count(width, count)?;
        let families = &mut self.open.last_mut()?.families;
        let known = families.iter().any(|family| family.prefix == prefix);
        families.push(Family { prefix, first, count });
        (!known).then_some(())
    }

    /// Counts `more` registers of `width` bits, or predicates if that is `None`. Returns the first of them.
    fn count(&mut self, width: Option<u32>, more: u32) -> Option<Register> {
        let counter = if width.is_some() { &mut self.registers } else { &mut self.predicates };
        let first = *counter;
        *counter = first.checked_add(more)?;
        let Some(bits) = width else { return Some(Register::Predicate(first)) };
        self.widths.push((first, bits));
        Some(Register::Value(first))
    }
}
