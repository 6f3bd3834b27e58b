//! Parses declarations of variables and parameters.

use super::super::lexer::{Failure, Token};
use super::super::{Space, Variable};
use super::cursor::Cursor;

/// Maximum number of dimensions of an array. Parsing initializers recurses once per dimension.
const MOST_DIMENSIONS: usize = 16;

/// Maximum bytes of an initializer, so that a short text cannot allocate all memory.
const MOST_INITIAL: usize = 1 << 30;

/// The element type of an array.
#[derive(Debug, Clone, Copy)]
struct Element {
    bytes: usize,
    float: bool,
}

impl Element {
    fn of(kind: &str) -> Option<Self> {
        let bytes = match kind {
            ".u8" | ".s8" | ".b8" => 1,
            ".u16" | ".s16" | ".b16" | ".f16" | ".bf16" => 2,
            ".u32" | ".s32" | ".b32" | ".f32" | ".f16x2" | ".bf16x2" => 4,
            ".u64" | ".s64" | ".b64" | ".f64" => 8,
            _ => return None,
        };
        Some(Self { bytes, float: kind.starts_with(".f") || kind.starts_with(".bf") })
    }
}

/// A declaration without its initializer.
struct Shape {
    element: Element,
    /// Length of each dimension; the first may be unknown.
    extents: Vec<Option<usize>>,
}

impl Shape {
    /// Returns the bytes of an element after indexing `outer` dimensions.
    fn bytes(&self, outer: usize) -> Option<usize> {
        let inner = self.extents.get(outer..).unwrap_or_default();
        inner.iter().try_fold(self.element.bytes, |bytes, extent| bytes.checked_mul((*extent)?))
    }
}

impl<'a> Cursor<'a> {
    /// Parses a list of parameters such as `(.param .u64 a, .param .align 8 .b8 b[48])`, which may be absent.
    pub fn parameters(&mut self) -> Result<Vec<Variable>, Failure> {
        let mut parameters = Vec::new();
        if !self.take(b'(')? || self.take(b')')? {
            return Ok(parameters);
        }
        loop {
            let at = self.at();
            match self.directive()? {
                ".param" => parameters.push(self.declared(Space::Parameter, false)?.1),
                word => return Err(Failure::new(at, format!("{word} of a parameter is not understood"))),
            }
            if !self.take(b',')? {
                break;
            }
        }
        self.expect(b')')?;
        Ok(parameters)
    }

    /// Parses a declaration after its state space (such as `.global`). Returns the variable with its name as written.
    pub fn variable(&mut self, space: Space, external: bool) -> Result<(&'a str, Variable), Failure> {
        let variable = self.declared(space, external)?;
        self.expect(b';')?;
        Ok(variable)
    }

    fn declared(&mut self, space: Space, external: bool) -> Result<(&'a str, Variable), Failure> {
        let align = self.alignment()?;
        let (at, kind) = (self.at(), self.directive()?);
        let element =
            Element::of(kind).ok_or_else(|| Failure::new(at, format!("the type {kind} is not understood")))?;
        if space == Space::Parameter {
            self.pointer()?;
        }
        let (at, name) = (self.at(), self.word()?);
        let shape = Shape { element, extents: self.extents()? };
        let initial = if self.take(b'=')? { self.initial(&shape)? } else { Vec::new() };
        let bytes = match shape.extents.first() {
            Some(None) if external => Some(0),
            // The length is that of the initializer, which must not be empty.
            Some(None) if !initial.is_empty() => {
                shape.bytes(1).and_then(|row| initial.len().checked_next_multiple_of(row))
            }
            _ => shape.bytes(0),
        };
        let Some(bytes) = bytes else { return Err(Failure::new(at, format!("the size of {name} is not understood"))) };
        let align = align.unwrap_or(element.bytes);
        Ok((name, Variable { name: name.to_owned(), space, align, bytes, initial }))
    }

    fn alignment(&mut self) -> Result<Option<usize>, Failure> {
        if self.token() != Token::Word(".align") {
            return Ok(None);
        }
        self.advance()?;
        let at = self.at();
        match self.small()? {
            align if align.is_power_of_two() => Ok(Some(align as usize)),
            align => Err(Failure::new(at, format!("{align} is no alignment"))),
        }
    }

    /// Parses `.ptr .global .align 16`, which describes the memory that a parameter points to, and ignores it.
    fn pointer(&mut self) -> Result<(), Failure> {
        if self.token() != Token::Word(".ptr") {
            return Ok(());
        }
        self.advance()?;
        if let Token::Word(".global" | ".const" | ".shared" | ".local") = self.token() {
            self.advance()?;
        }
        self.alignment().map(drop)
    }

    /// Parses the extents of an array, such as `[2][8]`. The first one may be open, as `[]`: then it follows from the
    /// initial values.
    fn extents(&mut self) -> Result<Vec<Option<usize>>, Failure> {
        let mut extents = Vec::new();
        while self.take(b'[')? {
            if extents.len() == MOST_DIMENSIONS {
                return self.fail("too many dimensions");
            }
            if extents.is_empty() && self.take(b']')? {
                extents.push(None);
                continue;
            }
            extents.push(Some(self.small()? as usize));
            self.expect(b']')?;
        }
        Ok(extents)
    }

    fn initial(&mut self, shape: &Shape) -> Result<Vec<u8>, Failure> {
        let mut initial = Vec::new();
        self.part(shape, 0, &mut initial)?;
        Ok(initial)
    }

    /// Parses the initializer of an element after indexing `outer` dimensions.
    fn part(&mut self, shape: &Shape, outer: usize, initial: &mut Vec<u8>) -> Result<(), Failure> {
        if outer == shape.extents.len() {
            return self.element(shape.element, initial);
        }
        self.expect(b'{')?;
        if self.take(b'}')? {
            return Ok(());
        }
        // The length is unknown only for the first dimension, for which there is no limit.
        let (start, row, most) = (initial.len(), shape.bytes(outer + 1), shape.bytes(outer).unwrap_or(usize::MAX));
        loop {
            let at = self.at();
            let next = row.and_then(|row| (initial.len() - start).checked_next_multiple_of(row));
            match next.and_then(|next| Some((next.checked_add(row?)?, start.checked_add(next)?))) {
                Some((end, from)) if end <= most && from <= MOST_INITIAL => initial.resize(from, 0),
                _ => return Err(Failure::new(at, "there are too many numbers here")),
            }
            self.part(shape, outer + 1, initial)?;
            if !self.take(b',')? {
                return self.expect(b'}');
            }
        }
    }

    fn element(&mut self, element: Element, initial: &mut Vec<u8>) -> Result<(), Failure> {
        let at = self.at();
        if let Token::Word(name) = self.token() {
            return self.fail(format!("the address of {name} as contents of a variable is not supported"));
        }
        let bits = self.number()?.element(element.bytes, element.float);
        let bits = bits.ok_or_else(|| Failure::new(at, "a number of this kind does not fit the variable"))?;
        initial.extend_from_slice(&bits.to_le_bytes()[..element.bytes]);
        Ok(())
    }
}
