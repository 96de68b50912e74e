//! Text to [`Token`]s. What a character means depends on where it stands: within braces are labels, within
//! brackets durations.

use super::token::{Kind, Op, Place, Token, Word};

/// All tokens, up to the end or to the first that is wrong.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer {
        text,
        at: 0,
        parens: 0,
        braces: false,
        brackets: false,
        colon: false,
        length: false,
    };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_space();
        let start = lexer.at;
        let kind = lexer.next();
        let last = matches!(kind, Kind::End | Kind::Wrong(_));
        tokens.push(Token { kind, place: Place { start, end: lexer.at } });
        if last {
            return tokens;
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    parens: usize,
    braces: bool,
    brackets: bool,
    /// Since the bracket was opened: a colon, and something that it can follow.
    colon: bool,
    length: bool,
}

fn wrong(text: impl Into<String>) -> Kind {
    Kind::Wrong(text.into())
}

fn is_alpha(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn take_if(&mut self, wanted: char) -> bool {
        let there = self.peek() == Some(wanted);
        if there {
            self.at += wanted.len_utf8();
        }
        there
    }

    fn take_while(&mut self, accepts: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&accepts) {
            self.take();
        }
    }

    fn skip_space(&mut self) {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
            // A comment lasts until the end of its line; within brackets there is none.
            if self.peek() != Some('#') || (self.brackets && !self.length) {
                return;
            }
            self.take_while(|c| !matches!(c, '\n' | '\r'));
        }
    }

    fn next(&mut self) -> Kind {
        let start = self.at;
        let Some(c) = self.take() else { return self.end() };
        if self.braces {
            return self.in_braces(c, start);
        }
        match c {
            ',' => Kind::Comma,
            '*' => Kind::Op(Op::Mul),
            '/' => Kind::Op(Op::Div),
            '%' => Kind::Op(Op::Mod),
            '+' => Kind::Op(Op::Add),
            '-' => Kind::Op(Op::Sub),
            '^' => Kind::Op(Op::Pow),
            '=' if self.take_if('=') => Kind::Op(Op::Equal),
            '=' if self.peek() == Some('~') => wrong("unexpected character after '=': '~'"),
            '=' => Kind::Equal,
            '!' if self.take_if('=') => Kind::Op(Op::NotEqual),
            '!' => match self.take() {
                Some(next) => wrong(format!("unexpected character after '!': {next:?}")),
                None => wrong("unexpected character after '!': '\\uffffffff'"),
            },
            '<' if self.take_if('=') => Kind::Op(Op::LessEqual),
            '<' if self.take_if('/') => Kind::Op(Op::TrimUpper),
            '<' => Kind::Op(Op::Less),
            '>' if self.take_if('=') => Kind::Op(Op::GreaterEqual),
            '>' if self.take_if('/') => Kind::Op(Op::TrimLower),
            '>' => Kind::Op(Op::Greater),
            '0'..='9' => self.number(start),
            '.' if self.peek().is_some_and(|c| c.is_ascii_digit()) => self.number(start),
            '"' | '\'' | '`' => self.text(c),
            '(' => {
                self.parens += 1;
                Kind::LeftParen
            }
            ')' if self.parens == 0 => wrong("unexpected right parenthesis ')'"),
            ')' => {
                self.parens -= 1;
                Kind::RightParen
            }
            '{' => {
                self.braces = true;
                Kind::LeftBrace
            }
            '[' if self.brackets => wrong("unexpected left bracket '['"),
            '[' => {
                (self.brackets, self.colon, self.length) = (true, false, false);
                Kind::LeftBracket
            }
            ']' if !self.brackets => wrong("unexpected right bracket ']'"),
            ']' => {
                self.brackets = false;
                Kind::RightBracket
            }
            '@' => Kind::At,
            _ if self.brackets => self.in_brackets(c, start),
            _ if is_alpha(c) || c == ':' => self.name(start),
            _ => wrong(format!("unexpected character: {c:?}")),
        }
    }

    fn end(&self) -> Kind {
        if self.braces {
            wrong("unexpected end of input inside braces")
        } else if self.brackets && !self.length {
            wrong("unexpected end of input in duration expression")
        } else if self.parens > 0 {
            wrong("unclosed left parenthesis")
        } else if self.brackets {
            wrong("unclosed left bracket")
        } else {
            Kind::End
        }
    }

    fn in_braces(&mut self, c: char, start: usize) -> Kind {
        match c {
            ',' => Kind::Comma,
            '"' | '\'' | '`' => self.text(c),
            '=' if self.take_if('~') => Kind::EqualRegex,
            '=' => Kind::Equal,
            '!' if self.take_if('~') => Kind::NotRegex,
            '!' if self.take_if('=') => Kind::Op(Op::NotEqual),
            '!' => match self.take() {
                Some(next) => {
                    wrong(format!("unexpected character after '!' inside braces: {next:?}"))
                }
                None => wrong("unexpected character after '!' inside braces: '\\uffffffff'"),
            },
            '{' => wrong("unexpected left brace '{'"),
            '}' => {
                self.braces = false;
                Kind::RightBrace
            }
            _ if is_alpha(c) => {
                self.take_while(|c| is_alpha(c) || c.is_ascii_digit());
                debug_assert!(self.at > start);
                Kind::Identifier
            }
            _ => wrong(format!("unexpected character inside braces: {c:?}")),
        }
    }

    fn in_brackets(&mut self, c: char, start: usize) -> Kind {
        if c == ':' {
            if !self.length {
                return wrong("unexpected colon before duration in duration expression");
            }
            if self.colon {
                return wrong("unexpected repeated colon in duration expression");
            }
            self.colon = true;
            return Kind::Colon;
        }
        if is_alpha(c) {
            self.take_while(is_alpha);
            let word = Word::of(&self.text[start..self.at]);
            if let Some(word @ (Word::Step | Word::Range | Word::MaxOf | Word::MinOf)) = word {
                self.length = true;
                return Kind::Word(word);
            }
        }
        if self.length {
            wrong(format!("unexpected character: {c:?}, expected ':'"))
        } else {
            wrong(format!("unexpected character in duration expression: {c:?}"))
        }
    }

    fn name(&mut self, start: usize) -> Kind {
        self.take_while(|c| is_alpha(c) || c.is_ascii_digit() || c == ':');
        let name = &self.text[start..self.at];
        if name.eq_ignore_ascii_case("inf") || name.eq_ignore_ascii_case("nan") {
            return Kind::Number;
        }
        match Word::of(name) {
            // These came late to the language: metrics with such names stay metrics.
            Some(Word::Fill | Word::FillLeft | Word::FillRight) if !self.paren_follows() => {
                Kind::Identifier
            }
            Some(word) => Kind::Word(word),
            None if name.contains(':') => Kind::Metric,
            None => Kind::Identifier,
        }
    }

    fn paren_follows(&self) -> bool {
        self.text[self.at..].trim_start_matches([' ', '\t', '\n', '\r']).starts_with('(')
    }

    fn number(&mut self, start: usize) -> Kind {
        self.length = true;
        self.at = start;
        let bad = |lexer: &Self| {
            wrong(format!("bad number or duration syntax: {:?}", &lexer.text[start..lexer.at]))
        };
        let hex = self.text[start..].starts_with("0x") || self.text[start..].starts_with("0X");
        if hex {
            self.at += 2;
            self.take_while(|c| c.is_ascii_hexdigit() || c == '_');
        } else {
            self.take_while(|c| c.is_ascii_digit() || c == '_');
            if self.take_if('.') {
                self.take_while(|c| c.is_ascii_digit() || c == '_');
            }
            let mantissa = self.at;
            if self.take_if('e') || self.take_if('E') {
                let _ = self.take_if('+') || self.take_if('-');
                let digits = self.at;
                self.take_while(|c| c.is_ascii_digit() || c == '_');
                if self.at == digits {
                    self.at = mantissa;
                    return bad(self);
                }
            }
        }
        if !self.peek().is_some_and(|c| is_alpha(c) || c.is_ascii_digit() || c == '.') {
            return Kind::Number;
        }
        self.take_while(|c| c.is_ascii_digit() || "smhdwy".contains(c));
        if self.peek().is_some_and(|c| is_alpha(c) || c.is_ascii_digit() || c == '.') {
            self.take();
            return bad(self);
        }
        Kind::Duration
    }

    fn text(&mut self, quote: char) -> Kind {
        let raw = quote == '`';
        loop {
            match self.take() {
                None if raw => return wrong("unterminated raw string"),
                None => return wrong("unterminated quoted string"),
                Some('\n') if !raw => return wrong("unterminated quoted string"),
                Some('\\') if !raw => {
                    if let Some(problem) = self.escape(quote) {
                        return wrong(problem);
                    }
                }
                Some(c) if c == quote => return Kind::Text,
                Some(_) => {}
            }
        }
    }

    /// What is wrong with the escape that begins here, if anything.
    fn escape(&mut self, quote: char) -> Option<String> {
        const CUT: &str = "escape sequence not terminated";
        let Some(c) = self.take() else { return Some(CUT.to_owned()) };
        let (digits, radix, max) = match c {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' => return None,
            _ if c == quote => return None,
            '0'..='7' => {
                self.at -= 1;
                (3, 8, 255)
            }
            'x' => (2, 16, 255),
            'u' => (4, 16, 0x10_ffff),
            'U' => (8, 16, 0x10_ffff),
            _ => return Some(format!("unknown escape sequence U+{:04X} '{c}'", u32::from(c))),
        };
        let mut value = 0_u64;
        for _ in 0..digits {
            let Some(c) = self.take() else { return Some(CUT.to_owned()) };
            let Some(digit) = c.to_digit(radix) else {
                let code = u32::from(c);
                return Some(format!("illegal character U+{code:04X} '{c}' in escape sequence"));
            };
            value = value * u64::from(radix) + u64::from(digit);
        }
        if value > max || (0xd800..0xe000).contains(&value) {
            return Some("escape sequence is an invalid Unicode code point".to_owned());
        }
        None
    }
}

/// The text without its quotes. Bytes that make no text become replacement characters.
pub(super) fn unquote(quoted: &str) -> String {
    let quote = quoted.chars().next().unwrap_or('"');
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if quote == '`' {
        return inner.replace('\r', "");
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let number = |rest: &mut std::str::Chars<'_>, digits: usize, radix: u32, first: u32| {
            let more = rest.by_ref().take(digits).filter_map(|c| c.to_digit(radix));
            more.fold(first, |value, digit| value.wrapping_mul(radix).wrapping_add(digit))
        };
        let mut put = |code: u32| {
            let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        };
        match rest.next() {
            Some('a') => bytes.push(7),
            Some('b') => bytes.push(8),
            Some('f') => bytes.push(12),
            Some('n') => bytes.push(b'\n'),
            Some('r') => bytes.push(b'\r'),
            Some('t') => bytes.push(b'\t'),
            Some('v') => bytes.push(11),
            Some('x') => bytes.push(number(&mut rest, 2, 16, 0) as u8),
            Some('u') => put(number(&mut rest, 4, 16, 0)),
            Some('U') => put(number(&mut rest, 8, 16, 0)),
            Some(c @ '0'..='7') => {
                let first = c.to_digit(8).unwrap_or_default();
                bytes.push(number(&mut rest, 2, 8, first) as u8);
            }
            Some(c) => put(u32::from(c)),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
