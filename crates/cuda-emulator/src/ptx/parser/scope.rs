//! Names inside of a function: what they mean depends on the braces around them.

use std::collections::{HashMap, HashSet};

use super::super::Register;
use super::super::lexer::Failure;

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// A register.
    Register(Register),
    /// A variable, by its unique name.
    Variable(String),
}

/// A jump whose label has not been found yet.
#[derive(Debug, Clone, Copy)]
pub struct Jump<'a> {
    /// The statement that jumps.
    pub statement: usize,
    /// Where it names the label in the text.
    pub at: usize,
    /// The label as written.
    pub label: &'a str,
}

/// What a name that stands alone means in its scope.
enum Named {
    Register(Register),
    Variable,
}

/// `%r<5>`: `%r0` to `%r4`.
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

/// A pair of braces.
#[derive(Default)]
struct Scope<'a> {
    /// 0 of the whole body, whose names stay as they are.
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

/// All braces that are open, and the registers that were counted so far.
#[derive(Default)]
pub struct Scopes<'a> {
    open: Vec<Scope<'a>>,
    opened: u32,
    /// Predicates of the function.
    pub predicates: u32,
    /// Its other registers.
    pub registers: u32,
    /// The first of each declaration of these, and their bits.
    pub widths: Vec<(u32, u32)>,
}

impl<'a> Scopes<'a> {
    /// `{`
    pub fn open(&mut self) {
        self.open.push(Scope { number: self.opened, ..Scope::default() });
        self.opened += 1;
    }

    /// How many are open.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// `}`: jumps that have found their labels, by the unique names of these. Others go on looking in the scope around,
    /// since a label may stand below the jumps to it.
    pub fn close(&mut self) -> Result<Vec<(usize, String)>, Failure> {
        let Some(mut scope) = self.open.pop() else { return Ok(Vec::new()) };
        let jumps = std::mem::take(&mut scope.jumps);
        let (found, others): (Vec<_>, Vec<_>) = jumps.into_iter().partition(|jump| scope.labels.contains(jump.label));
        match (self.open.last_mut(), others.first()) {
            (Some(around), _) => around.jumps.extend(others),
            (None, Some(lost)) => return Err(Failure::new(lost.at, format!("there is no label {}", lost.label))),
            (None, None) => {}
        }
        // Of the whole body they are called as they are written.
        let renamed = found.into_iter().filter(|_| scope.number != 0);
        Ok(renamed.map(|jump| (jump.statement, scope.unique(jump.label))).collect())
    }

    /// What a name means here, if it was declared.
    pub fn find(&self, name: &str) -> Option<Meaning> {
        self.open.iter().rev().find_map(|scope| scope.find(name))
    }

    /// A new variable, by its unique name; nothing if the scope has the name already.
    pub fn add_variable(&mut self, name: &'a str) -> Option<String> {
        let scope = self.open.last_mut()?;
        scope.names.insert(name, Named::Variable).is_none().then(|| scope.unique(name))
    }

    /// A new label, by its unique name; nothing if the scope has it already.
    pub fn add_label(&mut self, name: &'a str) -> Option<String> {
        let scope = self.open.last_mut()?;
        scope.labels.insert(name).then(|| scope.unique(name))
    }

    /// A jump to a label that may come yet.
    pub fn add_jump(&mut self, jump: Jump<'a>) {
        if let Some(scope) = self.open.last_mut() {
            scope.jumps.push(jump);
        }
    }

    /// A new register of so many bits, or a predicate; nothing if the scope has the name already or there are too many.
    pub fn add_register(&mut self, name: &'a str, width: Option<u32>) -> Option<()> {
        let register = self.count(width, 1)?;
        let names = &mut self.open.last_mut()?.names;
        names.insert(name, Named::Register(register)).is_none().then_some(())
    }

    /// New registers, the same, with numbers for names; nothing if the scope has them already or there are too many.
    pub fn add_registers(&mut self, prefix: &'a str, count: u32, width: Option<u32>) -> Option<()> {
        let first = self.count(width, count)?;
        let families = &mut self.open.last_mut()?.families;
        let known = families.iter().any(|family| family.prefix == prefix);
        families.push(Family { prefix, first, count });
        (!known).then_some(())
    }

    /// So many more, of so many bits or predicates.
    fn count(&mut self, width: Option<u32>, more: u32) -> Option<Register> {
        let counter = if width.is_some() { &mut self.registers } else { &mut self.predicates };
        let first = *counter;
        *counter = first.checked_add(more)?;
        let Some(bits) = width else { return Some(Register::Predicate(first)) };
        self.widths.push((first, bits));
        Some(Register::Value(first))
    }
}
