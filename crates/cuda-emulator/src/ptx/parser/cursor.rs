//! A place in the text, and the small things that stand in many places.

use super::super::lexer::{Failure, Lexer, Token};
use super::number::Number;

/// The token that is next, and the way on.
pub struct Cursor<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Before the first token.
    pub fn new(text: &'a str) -> Result<Self, Failure> {
        let mut lexer = Lexer::new(text);
        let (at, token) = lexer.next()?;
        Ok(Self { lexer, token, at })
    }

    /// The token that is next.
    pub fn token(&self) -> Token<'a> {
        self.token
    }

    /// Where it is in the text.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Goes beyond it.
    pub fn advance(&mut self) -> Result<(), Failure> {
        (self.at, self.token) = self.lexer.next()?;
        Ok(())
    }

    /// A failure at the next token.
    pub fn fail<T>(&self, what: impl Into<String>) -> Result<T, Failure> {
        Err(Failure::new(self.at, what))
    }

    /// A failure that says what should be there instead of the next token.
    pub fn miss<T>(&self, wanted: &str) -> Result<T, Failure> {
        let found = match self.token {
            Token::Word(word) | Token::Number(word) => format!("`{word}`"),
            Token::Text(text) => format!("{text:?}"),
            Token::Mark(mark) => format!("`{}`", char::from(mark)),
            Token::End => "the end of the text".to_owned(),
        };
        self.fail(format!("{wanted} is missing before {found}"))
    }

    /// Goes beyond a mark if it is next.
    pub fn take(&mut self, mark: u8) -> Result<bool, Failure> {
        let found = self.token == Token::Mark(mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Goes beyond a mark that has to be there.
    pub fn expect(&mut self, mark: u8) -> Result<(), Failure> {
        if self.take(mark)? { Ok(()) } else { self.miss(&format!("`{}`", char::from(mark))) }
    }

    /// A name.
    pub fn word(&mut self) -> Result<&'a str, Failure> {
        match self.token {
            Token::Word(word) if !word.starts_with('.') => {
                self.advance()?;
                Ok(word)
            }
            _ => self.miss("a name"),
        }
    }

    /// A word that begins with a point.
    pub fn directive(&mut self) -> Result<&'a str, Failure> {
        match self.token {
            Token::Word(word) if word.starts_with('.') => {
                self.advance()?;
                Ok(word)
            }
            _ => self.miss("a directive"),
        }
    }

    /// What stands in quotation marks.
    pub fn text(&mut self) -> Result<&'a str, Failure> {
        match self.token {
            Token::Text(text) => {
                self.advance()?;
                Ok(text)
            }
            _ => self.miss("a text in quotation marks"),
        }
    }

    /// A number of any kind, with its sign.
    pub fn number(&mut self) -> Result<Number, Failure> {
        let negative = self.take(b'-')?;
        let Token::Number(text) = self.token else { return self.miss("a number") };
        let Some(number) = Number::read(text) else {
            return self.fail(format!("the number {text} is not understood"));
        };
        self.advance()?;
        Ok(if negative { number.negated() } else { number })
    }

    /// A whole number, in two's complement.
    pub fn integer(&mut self) -> Result<u64, Failure> {
        let at = self.at;
        match self.number()? {
            Number::Integer(value) => Ok(value),
            _ => Err(Failure::new(at, "a number without fraction is needed here")),
        }
    }

    /// A whole number of 32 bits.
    pub fn small(&mut self) -> Result<u32, Failure> {
        let at = self.at;
        u32::try_from(self.integer()?).map_err(|_| Failure::new(at, "the number is too large"))
    }

    /// Some such numbers, by commas.
    pub fn smalls(&mut self) -> Result<Vec<u32>, Failure> {
        let mut numbers = vec![self.small()?];
        while self.take(b',')? {
            numbers.push(self.small()?);
        }
        Ok(numbers)
    }

    /// What follows `.pragma`: advice for other compilers.
    pub fn pragma(&mut self) -> Result<(), Failure> {
        self.text()?;
        while self.take(b',')? {
            self.text()?;
        }
        self.expect(b';')
    }

    /// What follows `.loc`: the file and line. Where that was inlined is read but not kept.
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
