//! Tokens to a tree, by operator precedence (Pratt 1973). Start at [`parse`].

mod lengths;
mod selectors;

pub(super) use lengths::{SECONDS_MAX, read_duration};

use std::fmt;

use super::ast::{Aggregate, Binary, Call, Expr, Matching, Side};
use super::functions::function;
use super::lexer::{tokens, unquote};
use super::token::{Aggregation, Kind, Op, Place, Token, Word};
use super::{check, functions};

/// Deeper than any person writes, and shallower than the stack of a thread.
const DEPTH_MAX: usize = 128;

/// What stands in a row nests as well, once it is a tree: `a + b + c`.
const OPERATORS_MAX: usize = 400;

/// A query of more is not written by a person either.
const TEXT_MAX: usize = 1 << 20;

/// A query that is none, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub problem: String,
    pub place: Place,
    /// From 1.
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: parse error: {}", self.line, self.column, self.problem)
    }
}

impl std::error::Error for ParseError {}

/// Line and column of a byte, from 1.
pub(super) fn position(text: &str, at: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    (line, before.len() - start + 1)
}

/// Reads a query and checks its types.
pub fn parse(text: &str) -> Result<Expr, ParseError> {
    let result = if text.len() > TEXT_MAX {
        Err(Fault {
            problem: format!("a query has at most {TEXT_MAX} bytes"),
            place: Place::default(),
        })
    } else {
        let mut parser = Parser { text, tokens: tokens(text), at: 0, depth: 0, operators: 0 };
        parser.whole().and_then(|expr| check::check(&expr).map(|()| expr))
    };
    result.map_err(|fault| {
        let (line, column) = position(text, fault.place.start);
        ParseError { problem: fault.problem, place: fault.place, line, column }
    })
}

/// The conditions of a selector alone, as the API takes them: `up{job="a"}`.
pub fn parse_selector(text: &str) -> Result<Vec<crate::Matcher>, ParseError> {
    match parse(text)? {
        Expr::Vector(selector) if selector.moved == super::ast::Moved::default() => {
            Ok(selector.matchers)
        }
        other => {
            let problem = "a selector of series is wanted".to_owned();
            Err(ParseError { problem, place: other.place(), line: 1, column: 1 })
        }
    }
}

/// What is wrong, and where.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) problem: String,
    pub(super) place: Place,
}

pub(super) fn fault<T>(place: Place, problem: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { problem: problem.into(), place })
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    operators: usize,
}

impl<'a> Parser<'a> {
    fn kind(&self) -> &Kind {
        &self.tokens[self.at].kind
    }

    fn kind_after(&self) -> &Kind {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].kind
    }

    fn place(&self) -> Place {
        self.tokens[self.at].place
    }

    /// Where the token before ends.
    fn end(&self) -> usize {
        self.tokens[self.at.saturating_sub(1)].place.end
    }

    fn word(&self) -> &'a str {
        let place = self.place();
        &self.text[place.start..place.end]
    }

    /// The last token is not passed.
    fn step(&mut self) -> Place {
        let place = self.place();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        place
    }

    fn take(&mut self, kind: &Kind) -> bool {
        let there = self.kind() == kind;
        if there {
            self.step();
        }
        there
    }

    fn unexpected<T>(&self, context: &str, expected: &str) -> Result<T, Fault> {
        let Kind::Wrong(problem) = self.kind() else {
            let mut problem = format!("unexpected {}", self.describe());
            if !context.is_empty() {
                problem.push_str(&format!(" in {context}"));
            }
            if !expected.is_empty() {
                problem.push_str(&format!(", expected {expected}"));
            }
            return fault(self.place(), problem);
        };
        fault(self.place(), problem.clone())
    }

    fn describe(&self) -> String {
        let word = self.word();
        match self.kind() {
            Kind::End => "end of input".to_owned(),
            Kind::Identifier => format!("identifier {word:?}"),
            Kind::Metric => format!("metric identifier {word:?}"),
            Kind::Number => format!("number {}", shortened(word)),
            Kind::Duration => format!("duration {}", shortened(word)),
            Kind::Text => format!("string {}", shortened(word)),
            Kind::Word(Word::Aggregation(_)) => format!("<aggr:{word}>"),
            Kind::Op(_) | Kind::Word(Word::Op(_)) | Kind::At => format!("<op:{word}>"),
            Kind::EqualRegex | Kind::NotRegex => format!("<op:{word}>"),
            Kind::Word(word_kind) if !word_kind.names_function() => format!("<{word}>"),
            _ => format!("{word:?}"),
        }
    }

    fn whole(&mut self) -> Result<Expr, Fault> {
        if *self.kind() == Kind::End {
            return fault(Place::default(), "no expression found in input");
        }
        let expr = self.expr(0)?;
        if *self.kind() == Kind::End { Ok(expr) } else { self.unexpected("", "") }
    }

    /// An expression of operators that bind at least so strongly.
    fn expr(&mut self, least: u8) -> Result<Expr, Fault> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return fault(self.place(), format!("expressions nest deeper than {DEPTH_MAX}"));
        }
        let mut left = self.operand()?;
        while let Some(op) = self.operator() {
            if op.strength() < least {
                break;
            }
            self.step();
            self.count_operator()?;
            let (returns_bool, matching) = self.matching()?;
            // The power binds to the right, all others to the left.
            let right = self.expr(if op == Op::Pow { op.strength() } else { op.strength() + 1 })?;
            let place = left.place().to(right.place());
            let binary = Binary { op, left, right, returns_bool, matching, place };
            left = Expr::Binary(Box::new(binary));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn count_operator(&mut self) -> Result<(), Fault> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX {
            return fault(self.place(), format!("a query has at most {OPERATORS_MAX} operators"));
        }
        Ok(())
    }

    fn operator(&self) -> Option<Op> {
        match self.kind() {
            Kind::Op(op) | Kind::Word(Word::Op(op)) => Some(*op),
            _ => None,
        }
    }

    fn operand(&mut self) -> Result<Expr, Fault> {
        if let Kind::Op(op @ (Op::Add | Op::Sub)) = *self.kind() {
            let place = self.step();
            // Weaker than the power, like in mathematics.
            let expr = self.expr(Op::Pow.strength())?;
            let negate = op == Op::Sub;
            let place = place.to(expr.place());
            return Ok(match expr {
                Expr::Number { value, .. } if negate => Expr::Number { value: -value, place },
                Expr::Number { value, .. } => Expr::Number { value, place },
                expr => Expr::Negative { expr: Box::new(expr), negate, place },
            });
        }
        let primary = self.primary()?;
        self.modifiers(primary)
    }

    fn primary(&mut self) -> Result<Expr, Fault> {
        match self.kind().clone() {
            Kind::Number | Kind::Duration => {
                let (value, place) = self.number()?;
                Ok(Expr::Number { value, place })
            }
            Kind::Text => {
                let value = unquote(self.word());
                Ok(Expr::Text { value, place: self.step() })
            }
            Kind::LeftParen => {
                let start = self.step();
                let expr = self.expr(0)?;
                if *self.kind() != Kind::RightParen {
                    return self.unexpected("", "");
                }
                let place = start.to(self.step());
                Ok(Expr::Paren { expr: Box::new(expr), place })
            }
            Kind::Word(Word::Aggregation(op)) if self.is_aggregation() => self.aggregation(op),
            Kind::Identifier if *self.kind_after() == Kind::LeftParen => self.call(),
            Kind::Word(word) if word.names_function() && *self.kind_after() == Kind::LeftParen => {
                self.call()
            }
            Kind::Identifier | Kind::Metric | Kind::LeftBrace => self.selector(),
            Kind::Word(word) if word.names_metric() => self.selector(),
            _ => self.unexpected("", ""),
        }
    }

    fn is_aggregation(&self) -> bool {
        matches!(self.kind_after(), Kind::LeftParen | Kind::Word(Word::By | Word::Without))
    }

    fn aggregation(&mut self, op: Aggregation) -> Result<Expr, Fault> {
        let start = self.step();
        let mut clause = self.grouping_clause()?;
        if *self.kind() != Kind::LeftParen {
            return self.unexpected("aggregation", "");
        }
        let mut arguments = self.arguments()?;
        if clause.is_none() {
            clause = self.grouping_clause()?;
        }
        let place = Place { start: start.start, end: self.end() };
        if arguments.is_empty() {
            return fault(place, "no arguments for aggregate expression provided");
        }
        let wanted = if op.has_parameter() { 2 } else { 1 };
        if arguments.len() != wanted {
            let got = arguments.len();
            let problem = "wrong number of arguments for aggregate expression provided";
            return fault(place, format!("{problem}, expected {wanted}, got {got}"));
        }
        let expr = arguments.remove(wanted - 1);
        let (without, grouping) = clause.unwrap_or_default();
        let parameter = arguments.pop();
        Ok(Expr::Aggregate(Box::new(Aggregate { op, expr, parameter, grouping, without, place })))
    }

    /// `by (…)` or `without (…)`.
    fn grouping_clause(&mut self) -> Result<Option<(bool, Vec<String>)>, Fault> {
        let without = match self.kind() {
            Kind::Word(Word::By) => false,
            Kind::Word(Word::Without) => true,
            _ => return Ok(None),
        };
        self.step();
        Ok(Some((without, self.label_list()?)))
    }

    fn label_list(&mut self) -> Result<Vec<String>, Fault> {
        if !self.take(&Kind::LeftParen) {
            return self.unexpected("grouping opts", "\"(\"");
        }
        let mut labels = Vec::new();
        loop {
            if self.take(&Kind::RightParen) {
                return Ok(labels);
            }
            let label = match self.kind() {
                Kind::Identifier | Kind::Word(_) => self.word().to_owned(),
                Kind::Metric => {
                    let word = self.word();
                    return fault(
                        self.place(),
                        format!("invalid label name for grouping: {word:?}"),
                    );
                }
                Kind::Text => unquote(self.word()),
                _ => return self.unexpected("grouping opts", "label"),
            };
            if label.is_empty() {
                return fault(self.place(), "invalid label name for grouping: \"\"");
            }
            labels.push(label);
            self.step();
            if !self.take(&Kind::Comma) && *self.kind() != Kind::RightParen {
                return self.unexpected("grouping opts", "\",\" or \")\"");
            }
        }
    }

    fn arguments(&mut self) -> Result<Vec<Expr>, Fault> {
        self.step();
        let mut arguments = Vec::new();
        if self.take(&Kind::RightParen) {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expr(0)?);
            if self.take(&Kind::RightParen) {
                return Ok(arguments);
            }
            let comma = self.place();
            if !self.take(&Kind::Comma) {
                return self.unexpected("", "");
            }
            if *self.kind() == Kind::RightParen {
                return fault(comma, "trailing commas not allowed in function call args");
            }
        }
    }

    fn call(&mut self) -> Result<Expr, Fault> {
        let name = self.word();
        let start = self.step();
        let found: Option<&'static functions::Function> = function(name);
        let arguments = self.arguments()?;
        let Some(function) = found else {
            return fault(start, format!("unknown function with name {name:?}"));
        };
        let place = Place { start: start.start, end: self.end() };
        Ok(Expr::Call(Call { function, arguments, place }))
    }

    /// `bool`, `on (…)`, `ignoring (…)`, `group_left (…)`, `fill (…)` after an operator.
    fn matching(&mut self) -> Result<(bool, Matching), Fault> {
        let returns_bool = self.take(&Kind::Word(Word::Bool));
        let mut matching = Matching {
            side: Side::OneToOne,
            on: false,
            labels: Vec::new(),
            include: Vec::new(),
            fill_left: None,
            fill_right: None,
        };
        if let Kind::Word(word @ (Word::On | Word::Ignoring)) = *self.kind() {
            self.step();
            matching.on = word == Word::On;
            matching.labels = self.label_list()?;
            if let Kind::Word(word @ (Word::GroupLeft | Word::GroupRight)) = *self.kind() {
                self.step();
                let left = word == Word::GroupLeft;
                matching.side = if left { Side::ManyToOne } else { Side::OneToMany };
                if *self.kind() == Kind::LeftParen {
                    matching.include = self.label_list()?;
                }
            }
        }
        while let Kind::Word(word @ (Word::Fill | Word::FillLeft | Word::FillRight)) = *self.kind()
        {
            self.step();
            let value = Some(self.fill_value()?);
            let left = matches!(word, Word::Fill | Word::FillLeft);
            let right = matches!(word, Word::Fill | Word::FillRight);
            if left && matching.fill_left.is_some() || right && matching.fill_right.is_some() {
                return self.unexpected("", "");
            }
            matching.fill_left = if left { value } else { matching.fill_left };
            matching.fill_right = if right { value } else { matching.fill_right };
        }
        Ok((returns_bool, matching))
    }

    fn fill_value(&mut self) -> Result<f64, Fault> {
        if !self.take(&Kind::LeftParen) {
            return self.unexpected("", "");
        }
        let negative = *self.kind() == Kind::Op(Op::Sub);
        if negative || *self.kind() == Kind::Op(Op::Add) {
            self.step();
        }
        let (value, _) = self.number()?;
        if !self.take(&Kind::RightParen) {
            return self.unexpected("", "");
        }
        Ok(if negative { -value } else { value })
    }
}

fn shortened(word: &str) -> String {
    if word.len() <= 10 {
        return format!("{word:?}");
    }
    let head: String = word.chars().take(10).collect();
    format!("{head:?}...")
}
