//! Splits PTX into tokens.

/// A token of PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// A name, a register, an opcode with all its modifiers, or a single directive with its period (`.reg.pred` is
    /// two).
    Word(&'a str),
    /// A token that starts with a digit, as written and not validated.
    Number(&'a str),
    /// The text between quotation marks.
    Text(&'a str),
    /// A punctuation character.
    Mark(u8),
    /// The end of the text.
    End,
}

/// A syntax error and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Position in the text, in bytes.
    pub at: usize,
    /// Description of the error.
    pub what: String,
}

impl Failure {
    /// Returns an error at a position.
    pub fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }

    /// Returns the error message with the line number, which is only computed here.
    pub fn message(&self, text: &str) -> String {
        let before = text.as_bytes().iter().take(self.at);
        format!("PTX line {}: {}", 1 + before.filter(|&&byte| byte == b'\n').count(), self.what)
    }
}

const SPACE: u8 = 1;
const WORD_START: u8 = 2;
const WORD_PART: u8 = 4;
const DIGIT: u8 = 8;
const MARK: u8 = 16;

/// Class of each byte: a table, because every byte of a text of megabytes is classified.
const KINDS: [u8; 256] = kinds();

const fn kinds() -> [u8; 256] {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b' ' | b'\t' | b'\r' | b'\n' => SPACE,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'.' => WORD_START | WORD_PART,
            b'%' => WORD_START,
            b'0'..=b'9' => DIGIT | WORD_PART,
            b'{' | b'}' | b'(' | b')' | b'[' | b']' | b'<' | b'>' => MARK,
            b',' | b';' | b':' | b'@' | b'!' | b'|' | b'+' | b'-' | b'=' => MARK,
            _ => 0,
        };
        byte += 1;
    }
    kinds
}

fn is(byte: u8, kind: u8) -> bool {
    KINDS[usize::from(byte)] & kind != 0
}

/// Splits a text into tokens, from its start on.
#[derive(Debug, Clone)]
pub struct Lexer<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Lexer<'a> {
    /// Returns a lexer at the start of `text`.
    pub fn new(text: &'a str) -> Self {
        Self { text, position: 0 }
    }

    /// Returns the next token and its position in bytes.
    pub fn next(&mut self) -> Result<(usize, Token<'a>), Failure> {
        self.skip_blanks()?;
        let start = self.position;
        let Some(byte) = self.byte(0) else { return Ok((start, Token::End)) };
        let token = if is(byte, WORD_START) {
            Token::Word(self.word())
        } else if is(byte, DIGIT) {
            Token::Number(self.number())
        } else if byte == b'"' {
            Token::Text(self.quoted()?)
        } else if is(byte, MARK) {
            self.position += 1;
            Token::Mark(byte)
        } else {
            let character = self.text[start..].chars().next().unwrap_or_default();
            return Err(Failure::new(start, format!("the character {character:?} is not understood")));
        };
        Ok((start, token))
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.position + ahead).copied()
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) -> Result<(), Failure> {
        loop {
            match self.byte(0) {
                Some(byte) if is(byte, SPACE) => self.position += 1,
                Some(b'/') if self.byte(1) == Some(b'/') => {
                    self.position = self.find("\n").unwrap_or(self.text.len());
                }
                Some(b'/') if self.byte(1) == Some(b'*') => {
                    let start = self.position;
                    self.position += 2;
                    let end = self.find("*/").ok_or_else(|| Failure::new(start, "a comment does not end"))?;
                    self.position = end + 2;
                }
                _ => return Ok(()),
            }
        }
    }

    fn find(&self, what: &str) -> Option<usize> {
        Some(self.position + self.text[self.position..].find(what)?)
    }

    fn word(&mut self) -> &'a str {
        let bytes = self.text.as_bytes();
        let start = self.position;
        let mut end = start + 1;
        let directive = bytes[start] == b'.';
        loop {
            match bytes.get(end) {
                Some(b'.') if directive => break,
                Some(&byte) if is(byte, WORD_PART) => end += 1,
                // The two colons belong to modifiers such as `.shared::cta`; the colon after a label is single.
                Some(b':') if bytes.get(end + 1) == Some(&b':') => end += 2,
                _ => break,
            }
        }
        self.position = end;
        &self.text[start..end]
    }

    fn number(&mut self) -> &'a str {
        let bytes = self.text.as_bytes();
        let start = self.position;
        // Hexadecimal literals, including floats by their bits, have no exponent: `0x1e+1` consists of several tokens.
        let prefixed = bytes[start] == b'0' && bytes.get(start + 1).is_some_and(u8::is_ascii_alphabetic);
        let mut end = start + 1;
        while let Some(&byte) = bytes.get(end) {
            let exponent = !prefixed && matches!(byte, b'+' | b'-') && matches!(bytes[end - 1], b'e' | b'E');
            if !exponent && !is(byte, WORD_PART) {
                break;
            }
            end += 1;
        }
        self.position = end;
        &self.text[start..end]
    }

    fn quoted(&mut self) -> Result<&'a str, Failure> {
        let start = self.position;
        self.position += 1;
        let end = self.find("\"").ok_or_else(|| Failure::new(start, "a text in quotation marks does not end"))?;
        self.position = end + 1;
        Ok(&self.text[start + 1..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Result<Vec<Token<'_>>, Failure> {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        loop {
            match lexer.next()?.1 {
                Token::End => return Ok(tokens),
                token => tokens.push(token),
            }
        }
    }

    #[test]
    fn words_hold_their_modifiers() {
        use Token::{Mark, Word};
        let bulk = "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint";
        assert_eq!(tokens(bulk), Ok(vec![Word(bulk)]));
        assert_eq!(tokens(".reg.pred %p<"), Ok(vec![Word(".reg"), Word(".pred"), Word("%p"), Mark(b'<')]));
        assert_eq!(tokens("$L__1: %tid.x"), Ok(vec![Word("$L__1"), Mark(b':'), Word("%tid.x")]));
        assert_eq!(tokens("%r1|%p1"), Ok(vec![Word("%r1"), Mark(b'|'), Word("%p1")]));
    }

    #[test]
    fn numbers_end_where_they_should() {
        use Token::{Mark, Number};
        assert_eq!(tokens("0f3F800000,1.5e-7"), Ok(vec![Number("0f3F800000"), Mark(b','), Number("1.5e-7")]));
        assert_eq!(tokens("0x1e+1"), Ok(vec![Number("0x1e"), Mark(b'+'), Number("1")]));
        assert_eq!(tokens("-12U"), Ok(vec![Mark(b'-'), Number("12U")]));
    }

    #[test]
    fn comments_and_texts() {
        use Token::{Text, Word};
        let text = "a // b \"\n/* c\n // */ d \"e // f\" /**/ // g";
        assert_eq!(tokens(text), Ok(vec![Word("a"), Word("d"), Text("e // f")]));
    }

    #[test]
    fn parse_errors_have_line_numbers() {
        for (text, message) in [
            ("a\nb ü", "PTX line 2: the character 'ü' is not understood"),
            ("a\n\n/* b\n", "PTX line 3: a comment does not end"),
            ("\"a", "PTX line 1: a text in quotation marks does not end"),
            ("a\n/b", "PTX line 2: the character '/' is not understood"),
        ] {
            assert_eq!(tokens(text).unwrap_err().message(text), message);
        }
    }
}
