//! Parses PTX to a [`Module`]: this file parses everything outside of functions, [`body`] parses their bodies.
//!
//! Scopes are kept in a list instead of recursing, and dimensions of arrays are limited, so that no text can exhaust
//! the stack.

mod body;
mod cursor;
mod number;
mod scope;
#[cfg(test)]
mod tests;
mod variable;

use super::lexer::{Failure, Token};
use super::{Function, Module, Space};
use cursor::Cursor;

/// Parses PTX. The error message contains the line of the text and what was expected.
pub fn parse(text: &str) -> Result<Module, String> {
    Parser::new(text).and_then(Parser::module).map_err(|failure| failure.message(text))
}

/// The state of parsing a module.
struct Parser<'a> {
    cursor: Cursor<'a>,
    module: Module,
    /// File and line of the last `.loc` directive.
    line: (u32, u32),
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self, Failure> {
        Ok(Self { cursor: Cursor::new(text)?, module: Module::default(), line: (0, 0) })
    }

    fn module(mut self) -> Result<Module, Failure> {
        while self.cursor.token() != Token::End {
            self.declaration()?;
        }
        if self.module.target == 0 {
            return self.cursor.fail("the module names no .target");
        }
        Ok(self.module)
    }

    fn declaration(&mut self) -> Result<(), Failure> {
        let external = self.linkage()?;
        let (at, word) = (self.cursor.at(), self.cursor.directive()?);
        match word {
            ".version" => drop(self.cursor.number()?),
            ".address_size" => self.address_size(at)?,
            ".target" => self.target()?,
            ".file" => self.file()?,
            ".loc" => self.line = self.cursor.location()?,
            ".section" => self.section()?,
            ".pragma" => self.cursor.pragma()?,
            ".entry" => self.function(true)?,
            ".func" => self.function(false)?,
            ".global" => self.variable(at, Space::Global, external)?,
            ".const" => self.variable(at, Space::Constant, external)?,
            ".shared" => self.variable(at, Space::Shared, external)?,
            _ => return Err(Failure::new(at, format!("{word} is not understood outside of functions"))),
        }
        Ok(())
    }

    /// Parses linkage directives. Returns whether `.extern` is among them; `.visible` and others matter to linkers
    /// only.
    fn linkage(&mut self) -> Result<bool, Failure> {
        let mut external = false;
        while let Token::Word(word @ (".extern" | ".visible" | ".weak")) = self.cursor.token() {
            external |= word == ".extern";
            self.cursor.advance()?;
        }
        Ok(external)
    }

    fn address_size(&mut self, at: usize) -> Result<(), Failure> {
        match self.cursor.small()? {
            64 => Ok(()),
            size => Err(Failure::new(at, format!("addresses have 64 bits, not {size}"))),
        }
    }

    /// Parses a target such as `sm_90a, debug`. Everything after the number is ignored.
    fn target(&mut self) -> Result<(), Failure> {
        let (at, name) = (self.cursor.at(), self.cursor.word()?);
        let number = name.strip_prefix("sm_").map(|rest| rest.trim_end_matches(|end: char| end.is_ascii_lowercase()));
        let number = number.and_then(|digits| digits.parse().ok()).filter(|&number| number != 0);
        self.module.target = number.ok_or_else(|| Failure::new(at, format!("the target {name} is not understood")))?;
        while self.cursor.take(b',')? {
            self.cursor.word()?;
        }
        Ok(())
    }

    /// Parses `.file 1 "name", 123, 456`; time and size are ignored.
    fn file(&mut self) -> Result<(), Failure> {
        let number = self.cursor.small()?;
        let name = self.cursor.text()?.to_owned();
        self.module.files.push((number, name));
        while self.cursor.take(b',')? {
            self.cursor.number()?;
        }
        Ok(())
    }

    /// Skips a section of debug information.
    fn section(&mut self) -> Result<(), Failure> {
        self.cursor.directive()?;
        self.cursor.expect(b'{')?;
        let mut open = 1usize;
        while open > 0 {
            match self.cursor.token() {
                Token::Mark(b'{') => open += 1,
                Token::Mark(b'}') => open -= 1,
                Token::End => return self.cursor.fail("a .section does not end"),
                _ => {}
            }
            self.cursor.advance()?;
        }
        Ok(())
    }

    fn variable(&mut self, at: usize, space: Space, external: bool) -> Result<(), Failure> {
        if external && space != Space::Shared {
            return Err(Failure::new(at, "variables of other modules are not supported"));
        }
        self.module.variables.push(self.cursor.variable(space, external)?.1);
        Ok(())
    }

    /// Parses a function. A declaration without a body is ignored.
    fn function(&mut self, kernel: bool) -> Result<(), Failure> {
        let results = self.cursor.parameters()?;
        let name = self.cursor.word()?.to_owned();
        let parameters = self.cursor.parameters()?;
        let mut function = Function { name, kernel, parameters, results, ..Function::default() };
        self.limits(&mut function)?;
        if self.cursor.take(b';')? {
            return Ok(());
        }
        body::read(&mut self.cursor, &mut function, self.line)?;
        self.line = (0, 0);
        self.module.functions.push(function);
        Ok(())
    }

    /// Parses the directives between the parameters and the body.
    fn limits(&mut self, function: &mut Function) -> Result<(), Failure> {
        while let Token::Word(word) = self.cursor.token() {
            let at = self.cursor.at();
            self.cursor.advance()?;
            match word {
                ".maxntid" | ".reqntid" => function.most_threads = Some(self.threads(at)?),
                ".reqnctapercluster" => function.cluster = Some(self.dimensions(at)?),
                ".minnctapersm" | ".maxnctapersm" | ".maxnreg" | ".maxclusterrank" => drop(self.cursor.small()?),
                ".noreturn" | ".explicitcluster" => {}
                ".pragma" => self.cursor.pragma()?,
                _ => return Err(Failure::new(at, format!("{word} of a function is not understood"))),
            }
        }
        Ok(())
    }

    fn threads(&mut self, at: usize) -> Result<u32, Failure> {
        let product = self.dimensions(at)?.iter().try_fold(1u32, |product, &extent| product.checked_mul(extent));
        product.ok_or_else(|| Failure::new(at, "a block cannot have that many threads"))
    }

    /// Parses up to three dimensions; missing ones are 1.
    fn dimensions(&mut self, at: usize) -> Result<[u32; 3], Failure> {
        match self.cursor.smalls()?[..] {
            [x] => Ok([x, 1, 1]),
            [x, y] => Ok([x, y, 1]),
            [x, y, z] => Ok([x, y, z]),
            _ => Err(Failure::new(at, "there are only three dimensions")),
        }
    }
}
