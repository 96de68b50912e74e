//! From the text of an expression to its tokens.

use crate::error::{Error, Result};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Int(i64),
    /// One more than the largest: only a minus before it makes it a number.
    IntMin,
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Word(String),
    /// Operators and brackets.
    Sign(&'static str),
    End,
}

/// Longer ones first, so that `<=` is not read as `<`.
const SIGNS: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",",
    "(", ")", "[", "]", "{", "}",
];

/// The tokens, each with the byte where it begins.
pub(crate) fn tokens(text: &str) -> Result<Vec<(Token, usize)>> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks();
        let at = lexer.at;
        let token = lexer.token()?;
        let is_end = token == Token::End;
        tokens.push((token, at));
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn token(&mut self) -> Result<Token> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        let second = rest[first.len_utf8()..].chars().next().unwrap_or(' ');
        if first.is_ascii_digit() || (first == '.' && second.is_ascii_digit()) {
            return self.number();
        }
        if let Some(prefix) = text_prefix(rest) {
            return self.text(prefix);
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let length = rest.find(|letter| !fits(letter)).unwrap_or(rest.len());
            self.at += length;
            return Ok(Token::Word(rest[..length].to_owned()));
        }
        match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => {
                self.at += sign.len();
                Ok(Token::Sign(sign))
            }
            None => Err(self.fails(format!("Syntax error: token recognition error at: '{first}'"))),
        }
    }

    fn fails(&self, message: impl Into<String>) -> Error {
        Error::new(self.at, message)
    }

    fn number(&mut self) -> Result<Token> {
        let rest = self.rest();
        if let Some(digits) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            let length = length_of(digits, |letter| letter.is_ascii_hexdigit());
            let digits = &digits[..length];
            self.at += 2 + length;
            return self.whole(digits, 16);
        }
        let mut length = length_of(rest, |letter| letter.is_ascii_digit());
        let mut is_double = false;
        let fraction = &rest[length..];
        if fraction.starts_with('.') && fraction[1..].starts_with(|c: char| c.is_ascii_digit()) {
            length += 1 + length_of(&fraction[1..], |letter| letter.is_ascii_digit());
            is_double = true;
        }
        if let Some(exponent) = rest[length..].strip_prefix(['e', 'E']) {
            let sign = usize::from(exponent.starts_with(['+', '-']));
            let digits = length_of(&exponent[sign..], |letter| letter.is_ascii_digit());
            if digits > 0 {
                length += 1 + sign + digits;
                is_double = true;
            }
        }
        let digits = &rest[..length];
        self.at += length;
        if !is_double {
            return self.whole(digits, 10);
        }
        let double: f64 = digits.parse().map_err(|_| self.fails("invalid double literal"))?;
        match double.is_finite() {
            true => Ok(Token::Double(double)),
            false => Err(self.fails("invalid double literal")),
        }
    }

    fn whole(&mut self, digits: &str, radix: u32) -> Result<Token> {
        if self.rest().starts_with(['u', 'U']) {
            self.at += 1;
            let number = u64::from_str_radix(digits, radix);
            return number.map(Token::Uint).map_err(|_| self.fails("invalid uint literal"));
        }
        match u64::from_str_radix(digits, radix) {
            Ok(number) if number == i64::MIN.unsigned_abs() => Ok(Token::IntMin),
            Ok(number) => {
                i64::try_from(number).map(Token::Int).map_err(|_| self.fails("invalid int literal"))
            }
            Err(_) => Err(self.fails("invalid int literal")),
        }
    }

    fn text(&mut self, prefix: Prefix) -> Result<Token> {
        let start = self.at;
        self.at += prefix.length;
        let rest = self.rest();
        let quote = rest.chars().next().unwrap_or('"');
        let triple: String = std::iter::repeat_n(quote, 3).collect();
        let closing = if rest.starts_with(&triple) { triple } else { quote.to_string() };
        self.at += closing.len();
        let mut content = Content { raw: prefix.raw, bytes: prefix.bytes, found: Vec::new() };
        loop {
            let rest = self.rest();
            if rest.starts_with(&closing) {
                self.at += closing.len();
                break;
            }
            let Some(letter) = rest.chars().next() else {
                self.at = start;
                return Err(self.fails("Syntax error: the text is not closed"));
            };
            if closing.len() == 1 && matches!(letter, '\n' | '\r') {
                return Err(self.fails("Syntax error: a line ends within a text"));
            }
            match letter {
                '\\' if !content.raw => self.escape(&mut content)?,
                _ => {
                    content.push(letter);
                    self.at += letter.len_utf8();
                }
            }
        }
        match prefix.bytes {
            true => Ok(Token::Bytes(content.found)),
            false => match String::from_utf8(content.found) {
                Ok(text) => Ok(Token::Text(text)),
                Err(_) => Err(self.fails("the text is not UTF-8")),
            },
        }
    }

    fn escape(&mut self, content: &mut Content) -> Result<()> {
        let rest = self.rest();
        let letter = rest[1..].chars().next().unwrap_or(' ');
        let (digits, radix, skipped) = match letter {
            'x' | 'X' => (2, 16, 2),
            'u' if !content.bytes => (4, 16, 2),
            'U' if !content.bytes => (8, 16, 2),
            '0'..='3' => (3, 8, 1),
            _ => {
                let plain = match letter {
                    'a' => '\u{7}',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'v' => '\u{b}',
                    '\\' | '?' | '"' | '\'' | '`' => letter,
                    _ => return Err(self.fails(format!("unable to unescape \\{letter}"))),
                };
                content.push(plain);
                self.at += 2;
                return Ok(());
            }
        };
        let number = rest.get(skipped..skipped + digits);
        let number = number.and_then(|digits| u32::from_str_radix(digits, radix).ok());
        let Some(number) = number else {
            return Err(self.fails("unable to unescape a code of a letter"));
        };
        self.at += skipped + digits;
        if content.bytes {
            content.found.push(u8::try_from(number).unwrap_or(u8::MAX));
            return Ok(());
        }
        match char::from_u32(number) {
            Some(letter) => content.push(letter),
            None => return Err(self.fails("unable to unescape a code that is no letter")),
        }
        Ok(())
    }
}

struct Content {
    raw: bool,
    bytes: bool,
    found: Vec<u8>,
}

impl Content {
    fn push(&mut self, letter: char) {
        self.found.extend(letter.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// What stands before the quote.
struct Prefix {
    length: usize,
    raw: bool,
    bytes: bool,
}

fn text_prefix(rest: &str) -> Option<Prefix> {
    // The longest prefix has two letters.
    let length = rest.bytes().take(3).position(|byte| matches!(byte, b'"' | b'\''))?;
    let prefix = rest[..length].to_ascii_lowercase();
    match prefix.as_str() {
        "" | "r" | "b" | "rb" | "br" => {
            Some(Prefix { length, raw: prefix.contains('r'), bytes: prefix.contains('b') })
        }
        _ => None,
    }
}

fn length_of(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !fits(letter)).unwrap_or(text.len())
}
