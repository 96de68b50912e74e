//! Reads a path from its text, one function for each part of the grammar.

use serde_json::Value;

use super::{Error, Operator, Step, Test};

/// Deeper than any object that the server accepts needs.
const STEPS_MAX: usize = 64;

/// Longer signs first: `<=` begins with `<`.
const OPERATORS: &[(&str, Operator)] = &[
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

pub(super) fn steps(source: &str) -> Result<Vec<Step>, Error> {
    Parser { source, position: 0 }.path()
}

struct Parser<'a> {
    source: &'a str,
    /// In bytes, always at the start of a character.
    position: usize,
}

impl Parser<'_> {
    fn path(&mut self) -> Result<Vec<Step>, Error> {
        if self.source.starts_with('{') {
            return Err(self.error("write the path without the braces around it"));
        }
        self.take("$");
        let mut steps = Vec::new();
        while let Some(next) = self.peek() {
            if steps.len() == STEPS_MAX {
                return Err(self.error(format!("a path has at most {STEPS_MAX} steps")));
            }
            match next {
                '[' => steps.push(self.brackets()?),
                '.' => {
                    self.position += 1;
                    // A lone dot is the whole object; `.['a']` is `['a']`.
                    match self.peek() {
                        None if steps.is_empty() => (),
                        Some('[') => (),
                        Some('.') => {
                            return Err(self.error("`..` (search at any depth) is not supported"));
                        }
                        _ => steps.push(self.field_or_every()?),
                    }
                }
                _ if steps.is_empty() => steps.push(self.field_or_every()?),
                other => {
                    return Err(self.error(format!("expected `.` or `[`, found {other:?}")));
                }
            }
        }
        if self.source.is_empty() {
            return Err(self.error("it is empty; write a path such as .spec.replicas"));
        }
        Ok(steps)
    }

    fn field_or_every(&mut self) -> Result<Step, Error> {
        if self.take("*") {
            return Ok(Step::Every);
        }
        Ok(Step::Field(self.field()?))
    }

    fn field(&mut self) -> Result<String, Error> {
        let mut name = String::new();
        while let Some(next) = self.peek() {
            match next {
                '\\' => {
                    self.position += 1;
                    let Some(escaped) = self.next() else {
                        return Err(self.error("a backslash must be followed by a character"));
                    };
                    name.push(escaped);
                }
                '.' | '[' | ']' | '(' | ')' | '=' | '!' | '<' | '>' | ' ' | '\t' => break,
                '{' | '}' | '@' | '?' | '*' | '\'' | '"' | ',' => {
                    let problem = format!("{next:?} cannot stand in a field name; write ['name']");
                    return Err(self.error(problem));
                }
                _ => {
                    name.push(next);
                    self.position += next.len_utf8();
                }
            }
        }
        if name.is_empty() {
            return Err(self.error("expected a field name"));
        }
        Ok(name)
    }

    fn brackets(&mut self) -> Result<Step, Error> {
        self.position += 1;
        self.spaces();
        let step = match self.peek() {
            Some('*') => {
                self.position += 1;
                Step::Every
            }
            Some('?') => {
                self.position += 1;
                Step::Where(self.test()?)
            }
            Some('\'' | '"') => Step::Field(self.quoted()?),
            Some('-' | '0'..='9') => Step::Index(self.index()?),
            _ => {
                return Err(self.error(
                    "expected a number, `*`, a name in quotes or a test such as ?(@.type==\"Ready\")",
                ));
            }
        };
        self.spaces();
        self.expect("]")?;
        Ok(step)
    }

    fn index(&mut self) -> Result<i64, Error> {
        let rest = &self.source[self.position..];
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
        let Ok(index) = rest[..digits].parse() else {
            return Err(self.error(format!("{:?} is not a whole number", &rest[..digits])));
        };
        self.position += digits;
        Ok(index)
    }

    fn test(&mut self) -> Result<Test, Error> {
        self.expect("(")?;
        self.spaces();
        self.expect("@")?;
        let mut fields = Vec::new();
        loop {
            if fields.len() == STEPS_MAX {
                return Err(self.error(format!("a test has at most {STEPS_MAX} steps")));
            }
            if self.take(".") {
                fields.push(self.field()?);
            } else if self.take("[") {
                fields.push(self.quoted()?);
                self.expect("]")?;
            } else {
                break;
            }
        }
        self.spaces();
        let mut comparison = None;
        for (sign, operator) in OPERATORS {
            if self.take(sign) {
                self.spaces();
                comparison = Some((*operator, self.literal()?));
                self.spaces();
                break;
            }
        }
        self.expect(")")?;
        Ok(Test { fields, comparison })
    }

    fn literal(&mut self) -> Result<Value, Error> {
        if let Some('\'' | '"') = self.peek() {
            return Ok(Value::String(self.quoted()?));
        }
        let rest = &self.source[self.position..];
        let end = rest.find([')', ' ', '\t']).unwrap_or(rest.len());
        let value = match &rest[..end] {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            number => match number.parse::<serde_json::Number>() {
                Ok(number) => Value::Number(number),
                Err(_) => {
                    return Err(self.error("expected text in quotes, a number, true or false"));
                }
            },
        };
        self.position += end;
        Ok(value)
    }

    fn quoted(&mut self) -> Result<String, Error> {
        let Some(quote @ ('\'' | '"')) = self.peek() else {
            return Err(self.error("expected text in quotes"));
        };
        let start = self.position;
        self.position += 1;
        let mut text = String::new();
        while let Some(next) = self.next() {
            match next {
                '\\' => text.extend(self.next()),
                _ if next == quote => return Ok(text),
                _ => text.push(next),
            }
        }
        self.position = start;
        Err(self.error("this quote is never closed"))
    }

    fn peek(&self) -> Option<char> {
        self.source[self.position..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.position += next.len_utf8();
        Some(next)
    }

    fn take(&mut self, expected: &str) -> bool {
        let there = self.source[self.position..].starts_with(expected);
        if there {
            self.position += expected.len();
        }
        there
    }

    fn expect(&mut self, expected: &str) -> Result<(), Error> {
        if self.take(expected) {
            return Ok(());
        }
        Err(match self.peek() {
            Some(found) => self.error(format!("expected `{expected}`, found {found:?}")),
            None => self.error(format!("expected `{expected}`, but the path ends here")),
        })
    }

    fn spaces(&mut self) {
        while self.take(" ") || self.take("\t") {}
    }

    fn error(&self, problem: impl Into<String>) -> Error {
        let at = self.source[..self.position].chars().count() + 1;
        Error::Syntax { path: self.source.to_owned(), at, problem: problem.into() }
    }
}
