//! A position in the text, and parsers of elements that many statements contain.

use super::super::lexer::{Failure, Lexer, Token};
use super::number::Number;

/// The next token and the lexer that yields the following ones.
pub struct Cursor<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor at the first token of `text`.
    pub fn new(text: &'a str) -> Result<Self, Failure> {
        let mut lexer = Lexer::new(text);
        let (at, token) = lexer.next()?;
        Ok(Self { lexer, token, at })
    }

    /// Returns the next token.
    pub fn token(&self) -> Token<'a> {
        self.token
    }

    /// Returns the position of the next token in the text, in bytes.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Moves to the following token.
    pub fn advance(&mut self) -> Result<(), Failure> {
        (self.at, self.token) = self.lexer.next()?;
        Ok(())
    }

    /// Returns an error at the next token.
    pub fn fail<T>(&self, what: impl Into<String>) -> Result<T, Failure> {
        Err(Failure::new(self.at, what))
    }

    /// Returns an error that names the expected element and the next token.
    pub fn miss<T>(&self, wanted: &str) -> Result<T, Failure> {
        let found = match self.token {
            Token::Word(word) | Token::Number(word) => format!("`{word}`"),
            Token::Text(text) => format!("{text:?}"),
            Token::Mark(mark) => format!("`{}`", char::from(mark)),
            Token::End => "the end of the text".to_owned(),
        };
        self.fail(format!("{wanted} is missing before {found}"))
    }

    /// Moves beyond the next token if it is `mark`. Returns whether it was.
    pub fn take(&mut self, mark: u8) -> Result<bool, Failure> {
        let found = self.token == Token::Mark(mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Moves beyond `mark`, which must be the next token.
    pub fn expect(&mut self, mark: u8) -> Result<(), Failure> {
        if self.take(mark)? { Ok(()) } else { self.miss(&format!("`{}`", char::from(mark))) }
    }

    /// Parses a name.
    pub fn word(&mut self) -> Result<&'a str, Failure> {
        match self.token {
            Token::Word(word) if !word.starts_with('.') => {
                self.advance()?;
                Ok(word)
            }
            _ => self.miss("a name"),
        }
    }

    /// Parses a word that starts with a period.
    pub fn directive(&mut self) -> Result<&'a str, Failure> {
        match self.token {
            Token::Word(word) if word.starts_with('.') => {
                self.advance()?;
                Ok(word)
            }
            _ => self.miss("a directive"),
        }
    }

    /// Parses a text in quotation marks.
    pub fn text(&mut self) -> Result<&'a str, Failure> {
        match self.token {
            Token::Text(text) => {
                self.advance()?;
                Ok(text)
            }
            _ => self.miss("a text in quotation marks"),
        }
    }

    /// Parses a number of any kind with its sign.
    pub fn number(&mut self) -> Result<Number, Failure> {
        let negative = self.take(b'-')?;
        let Token::Number(text) = self.token else { return self.miss("a number") };
        let Some(number) = Number::read(text) else {
            return self.fail(format!("the number {text} is not understood"));
        };
        self.advance()?;
        Ok(if negative { number.negated() } else { number })
    }

    /// Parses an integer, returned in two's complement.
    pub fn integer(&mut self) -> Result<u64, Failure> {
        let at = self.at;
        match self.number()? {
            Number::Integer(value) => Ok(value),
            _ => Err(Failure::new(at, "a number without fraction is needed here")),
        }
    }

    /// Parses an integer of 32 bits.
    pub fn small(&mut self) -> Result<u32, Failure> {
        let at = self.at;
        u32::try_from(self.integer()?).map_err(|_| Failure::new(at, "the number is too large"))
    }

    /// Parses a list of integers of 32 bits that are separated by commas.
    pub fn smalls(&mut self) -> Result<Vec<u32>, Failure> {
        let mut numbers = vec![self.small()?];
        while self.take(b',')? {
            numbers.push(self.small()?);
        }
        Ok(numbers)
    }

    /// Parses the rest of a `.pragma` directive, which contains hints for compilers, and ignores it.
    pub fn pragma(&mut self) -> Result<(), Failure> {
        self.text()?;
        while self.take(b',')? {
            self.text()?;
        }
        self.expect(b';')
    }

    /// Parses the rest of a `.loc` directive and returns file and line. The location of inlining is ignored.
    pub fn location(&mut self) -> Result<(u32, u32), Failure> {
        let line = (self.small()?, self.small()?);
        if matches!(self.token, Token::Number(_)) {
            self.small()?;
        }
        while self.take(b',')? {
            match self.word()? {
                "function_name" => self.name_of_function()?,
                "inlined_at" => drop((self.small()?, self.small()?, self.small()?)),
                word => return self.fail(format!("{word} of .loc is not understood")),
            }
        }
        Ok(line)
    }

    fn name_of_function(&mut self) -> Result<(), Failure> {
        self.word()?;
        if self.take(b'+')? {
            self.small()?;
        }
        Ok(())
    }
}
