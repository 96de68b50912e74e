//! From tokens to a tree, by the grammar of the language. Macros are read here.

use crate::ast::{Access, Expr, Form, Loop, LoopKind};
use crate::error::{Error, Result};
use crate::token::{Token, tokens};

/// Longer expressions are refused before they are read.
pub(crate) const TEXT_BYTES_MAX: usize = 100_000;
/// Of brackets within brackets: each level costs a dozen frames of stack here.
const DEPTH_MAX: usize = 50;
/// Of the tree: each level costs stack in every walk over it.
const HEIGHT_MAX: usize = 150;

/// Words of other languages, which no name may be.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

pub(crate) fn parse(text: &str) -> Result<Expr> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the expression has more than {TEXT_BYTES_MAX} bytes");
        return Err(Error::new(0, message));
    }
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let expr = parser.expr()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected()),
    }
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    next: usize,
    depth: usize,
}

/// Operators by how tightly they bind, loosest first, and the functions that they are.
const BINARY: &[&[(&str, &str)]] = &[
    &[("<", "_<_"), ("<=", "_<=_"), (">", "_>_"), (">=", "_>=_"), ("==", "_==_"), ("!=", "_!=_")],
    &[("+", "_+_"), ("-", "_-_")],
    &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
];

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn at(&self) -> usize {
        self.tokens[self.next].1
    }

    fn advance(&mut self) -> Token {
        let token = self.tokens[self.next].0.clone();
        if self.next + 1 < self.tokens.len() {
            self.next += 1;
        }
        token
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Token::Sign(found) if *found == sign);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        match self.takes(sign) {
            true => Ok(()),
            false => Err(self.unexpected()),
        }
    }

    fn unexpected(&self) -> Error {
        let found = match self.peek() {
            Token::End => "<EOF>".to_owned(),
            Token::Sign(sign) => (*sign).to_owned(),
            Token::Word(word) => word.clone(),
            Token::Int(number) => number.to_string(),
            Token::IntMin | Token::Uint(_) | Token::Double(_) => "a number".to_owned(),
            Token::Text(_) | Token::Bytes(_) => "a text".to_owned(),
        };
        Error::new(self.at(), format!("Syntax error: mismatched input '{found}'"))
    }

    fn expr(&mut self) -> Result<Expr> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep(self.at()));
        }
        let condition = self.or()?;
        let at = self.at();
        let expr = match self.takes("?") {
            false => condition,
            true => {
                let yes = self.or()?;
                self.expect(":")?;
                let no = self.expr()?;
                node(at, Form::If(Box::new(condition), Box::new(yes), Box::new(no)))?
            }
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn or(&mut self) -> Result<Expr> {
        self.chain("||", Parser::and, Form::Or)
    }

    fn and(&mut self) -> Result<Expr> {
        self.chain("&&", |parser| parser.binary(0), Form::And)
    }

    /// A long chain becomes a flat tree: what matters is only that it is not as deep as it is long.
    fn chain(
        &mut self,
        sign: &str,
        part: fn(&mut Parser) -> Result<Expr>,
        join: fn(Box<Expr>, Box<Expr>) -> Form,
    ) -> Result<Expr> {
        let mut parts = vec![(part(self)?, 0)];
        loop {
            let at = self.at();
            if !self.takes(sign) {
                return Ok(balanced(parts, join));
            }
            parts.push((part(self)?, at));
        }
    }

    fn binary(&mut self, level: usize) -> Result<Expr> {
        let Some(operators) = BINARY.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        loop {
            let at = self.at();
            let is_in = level == 0 && matches!(self.peek(), Token::Word(word) if word == "in");
            let operator = operators
                .iter()
                .find(|(sign, _)| matches!(self.peek(), Token::Sign(found) if found == sign));
            let name = match operator {
                _ if is_in => "@in",
                Some((_, name)) => name,
                None => return Ok(left),
            };
            self.advance();
            let right = self.binary(level + 1)?;
            left = node(at, Form::Call(name.to_owned(), None, vec![left, right]))?;
        }
    }

    fn unary(&mut self) -> Result<Expr> {
        let at = self.at();
        let mut count = 0;
        for (sign, name) in [("!", "!_"), ("-", "-_")] {
            while self.takes(sign) {
                count += 1;
            }
            if count == 0 {
                continue;
            }
            if name == "-_" && count == 1 {
                match self.peek() {
                    Token::Int(_) | Token::IntMin | Token::Double(_) => {
                        let negative = match self.advance() {
                            Token::Int(number) => Form::Int(-number),
                            Token::Double(number) => Form::Double(-number),
                            _ => Form::Int(i64::MIN),
                        };
                        return self.member(node(at, negative)?);
                    }
                    _ => (),
                }
            }
            let operand = self.primary_with_members()?;
            // Two of them are none.
            return match count % 2 {
                0 => Ok(operand),
                _ => node(at, Form::Call(name.to_owned(), None, vec![operand])),
            };
        }
        self.primary_with_members()
    }

    fn primary_with_members(&mut self) -> Result<Expr> {
        let primary = self.primary()?;
        self.member(primary)
    }

    fn member(&mut self, mut expr: Expr) -> Result<Expr> {
        loop {
            let at = self.at();
            if self.takes(".") {
                let access = if self.takes("?") { Access::Optional } else { Access::Plain };
                let name = self.word()?;
                expr = match access == Access::Plain && self.takes("(") {
                    true => {
                        let arguments = self.arguments(")")?;
                        member_call(at, expr, name, arguments)?
                    }
                    false => node(at, Form::Select(Box::new(expr), name, access))?,
                };
            } else if self.takes("[") {
                let access = if self.takes("?") { Access::Optional } else { Access::Plain };
                let index = self.expr()?;
                self.expect("]")?;
                expr = node(at, Form::Index(Box::new(expr), Box::new(index), access))?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn word(&mut self) -> Result<String> {
        match self.peek() {
            Token::Word(word) if word != "in" => {
                let word = word.clone();
                self.advance();
                Ok(word)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn primary(&mut self) -> Result<Expr> {
        let at = self.at();
        let form = match self.advance() {
            Token::Int(number) => Form::Int(number),
            Token::Uint(number) => Form::Uint(number),
            Token::Double(number) => Form::Double(number),
            Token::Text(text) => Form::Text(text),
            Token::Bytes(bytes) => Form::Bytes(bytes),
            Token::Word(word) => return self.name(at, word),
            Token::Sign("(") => {
                let expr = self.expr()?;
                self.expect(")")?;
                return Ok(expr);
            }
            Token::Sign("[") => Form::List(self.elements()?),
            Token::Sign("{") => Form::Map(self.entries()?),
            // A name from the root, of which there are none but ours.
            Token::Sign(".") => {
                let word = self.word()?;
                return self.name(at, word);
            }
            Token::IntMin => return Err(Error::new(at, "invalid int literal")),
            Token::Sign(_) | Token::End => {
                self.next = self.next.min(self.tokens.len() - 1);
                return Err(unexpected_at(&self.tokens, at));
            }
        };
        node(at, form)
    }

    fn name(&mut self, at: usize, word: String) -> Result<Expr> {
        let form = match word.as_str() {
            "true" => Form::Bool(true),
            "false" => Form::Bool(false),
            "null" => Form::Null,
            word if RESERVED.contains(&word) => {
                return Err(Error::new(at, format!("reserved identifier: {word}")));
            }
            "in" => return Err(unexpected_at(&self.tokens, at)),
            _ if self.takes("(") => {
                let arguments = self.arguments(")")?;
                return call(at, word, arguments);
            }
            _ => Form::Name(word),
        };
        node(at, form)
    }

    fn arguments(&mut self, closing: &str) -> Result<Vec<Expr>> {
        let mut arguments = Vec::new();
        if self.takes(closing) {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expr()?);
            if self.takes(closing) {
                return Ok(arguments);
            }
            self.expect(",")?;
        }
    }

    fn elements(&mut self) -> Result<Vec<(Expr, Access)>> {
        let mut elements = Vec::new();
        loop {
            if self.takes("]") {
                return Ok(elements);
            }
            let access = if self.takes("?") { Access::Optional } else { Access::Plain };
            elements.push((self.expr()?, access));
            if !self.takes(",") {
                self.expect("]")?;
                return Ok(elements);
            }
        }
    }

    fn entries(&mut self) -> Result<Vec<(Expr, Expr, Access)>> {
        let mut entries = Vec::new();
        loop {
            if self.takes("}") {
                return Ok(entries);
            }
            let access = if self.takes("?") { Access::Optional } else { Access::Plain };
            let key = self.expr()?;
            self.expect(":")?;
            entries.push((key, self.expr()?, access));
            if !self.takes(",") {
                self.expect("}")?;
                return Ok(entries);
            }
        }
    }
}

fn unexpected_at(tokens: &[(Token, usize)], at: usize) -> Error {
    let found = tokens.iter().find(|(_, place)| *place == at).map(|(token, _)| token);
    let found = match found {
        Some(Token::Sign(sign)) => sign,
        Some(Token::Word(_)) => "in",
        _ => "<EOF>",
    };
    Error::new(at, format!("Syntax error: mismatched input '{found}'"))
}

fn balanced(mut parts: Vec<(Expr, usize)>, join: fn(Box<Expr>, Box<Expr>) -> Form) -> Expr {
    if parts.len() == 1 {
        return parts.swap_remove(0).0;
    }
    let right = parts.split_off(parts.len().div_ceil(2));
    let at = right[0].1;
    Expr::new(at, join(Box::new(balanced(parts, join)), Box::new(balanced(right, join))))
}

fn node(at: usize, form: Form) -> Result<Expr> {
    let expr = Expr::new(at, form);
    if expr.height > HEIGHT_MAX { Err(too_deep(at)) } else { Ok(expr) }
}

fn too_deep(at: usize) -> Error {
    Error::new(at, "expression recursion limit exceeded: the rule is nested too deeply")
}

fn call(at: usize, name: String, mut arguments: Vec<Expr>) -> Result<Expr> {
    if name == "has" && arguments.len() == 1 {
        let argument = arguments.swap_remove(0);
        return match argument.form {
            Form::Select(of, field, Access::Plain) => node(at, Form::Has(of, field)),
            _ => Err(Error::new(argument.at, "invalid argument to has() macro")),
        };
    }
    node(at, Form::Call(name, None, arguments))
}

fn member_call(at: usize, of: Expr, name: String, arguments: Vec<Expr>) -> Result<Expr> {
    let optional = match name.as_str() {
        "optMap" => Some(false),
        "optFlatMap" => Some(true),
        _ => None,
    };
    if let (Some(flat), 2) = (optional, arguments.len()) {
        let [name, body] = pair(arguments);
        let (name, of, body) = (variable(&name, "optMap")?, Box::new(of), Box::new(body));
        return node(at, Form::WithValue { of, name, body, flat });
    }
    let kind = match (name.as_str(), arguments.len()) {
        ("all", 2 | 3) => LoopKind::All,
        ("exists", 2 | 3) => LoopKind::Exists,
        ("exists_one" | "existsOne", 2 | 3) => LoopKind::ExistsOne,
        ("map" | "filter", 2) | ("map", 3) | ("transformList", 3 | 4) => LoopKind::List,
        ("transformMap", 3 | 4) => LoopKind::Map,
        ("transformMapEntry", 3 | 4) => LoopKind::Entries,
        _ => return node(at, Form::Call(name, Some(Box::new(of)), arguments)),
    };
    let names = match (name.as_str(), arguments.len()) {
        ("map" | "filter", _) | ("all" | "exists" | "exists_one" | "existsOne", 2) => 1,
        _ => 2,
    };
    let mut rest = arguments;
    let mut bodies = rest.split_off(names);
    let names: Vec<String> = rest.iter().map(|one| variable(one, &name)).collect::<Result<_>>()?;
    if names.len() == 2 && names[0] == names[1] {
        return Err(Error::new(rest[1].at, "duplicate variable name"));
    }
    let last = bodies.pop().expect("each form has a body");
    let (filter, body) = match name.as_str() {
        "filter" => (Some(last), rest.swap_remove(0)),
        _ => (bodies.pop(), last),
    };
    let found = Loop { kind, range: of, names, filter, body };
    node(at, Form::Loop(Box::new(found)))
}

fn pair(mut arguments: Vec<Expr>) -> [Expr; 2] {
    let second = arguments.pop().expect("there are two");
    let first = arguments.pop().expect("there are two");
    [first, second]
}

fn variable(expr: &Expr, of: &str) -> Result<String> {
    match &expr.form {
        Form::Name(name) => Ok(name.clone()),
        _ => Err(Error::new(expr.at, format!("argument of {of}() must be a simple name"))),
    }
}
