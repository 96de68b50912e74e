//! Selectors, and what may follow them: ranges, subqueries, `offset` and `@`.

use crate::labels::NAME;
use crate::matcher::{Matcher, Op as MatchOp};

use super::super::ast::{At, Expr, Extension, Moved, RangeSelector, Selector, Subquery};
use super::super::lexer::unquote;
use super::super::token::{Kind, Op, Place, Word};
use super::{Fault, Parser, fault};

impl Parser<'_> {
    pub(super) fn selector(&mut self) -> Result<Expr, Fault> {
        let start = self.place();
        let mut name = None;
        if *self.kind() != Kind::LeftBrace {
            name = Some(self.word().to_owned());
            self.step();
        }
        let mut matchers = Vec::new();
        if *self.kind() == Kind::LeftBrace {
            matchers = self.matchers()?;
        }
        if let Some(name) = &name {
            matchers.push(Matcher::equal(NAME, name));
        }
        let place = Place { start: start.start, end: self.end() };
        let (moved, extension) = (Moved::default(), Extension::None);
        Ok(Expr::Vector(Selector { name, matchers, moved, extension, place }))
    }

    fn matchers(&mut self) -> Result<Vec<Matcher>, Fault> {
        self.step();
        let mut matchers = Vec::new();
        loop {
            if self.take(&Kind::RightBrace) {
                return Ok(matchers);
            }
            matchers.push(self.matcher()?);
            if !self.take(&Kind::Comma) && *self.kind() != Kind::RightBrace {
                return self.unexpected("label matching", "\",\" or \"}\"");
            }
        }
    }

    fn matcher(&mut self) -> Result<Matcher, Fault> {
        let start = self.place();
        let (name, quoted) = match self.kind() {
            Kind::Identifier => (self.word().to_owned(), false),
            Kind::Text => (unquote(self.word()), true),
            _ => return self.unexpected("label matching", "identifier or \"}\""),
        };
        self.step();
        let op = match self.kind() {
            Kind::Equal => MatchOp::Equal,
            Kind::Op(Op::NotEqual) => MatchOp::NotEqual,
            Kind::EqualRegex => MatchOp::Matches,
            Kind::NotRegex => MatchOp::MatchesNot,
            // A quoted name alone is the metric's.
            Kind::Comma | Kind::RightBrace if quoted => return Ok(Matcher::equal(NAME, &name)),
            _ if quoted => return self.unexpected("label matching", "\",\" or \"}\""),
            _ => return self.unexpected("label matching", "label matching operator"),
        };
        self.step();
        if *self.kind() != Kind::Text {
            return self.unexpected("label matching", "string");
        }
        let value = unquote(self.word());
        let end = self.step();
        Matcher::new(&name, op, &value)
            .map_err(|bad| Fault { problem: bad.to_string(), place: start.to(end) })
    }

    pub(super) fn modifiers(&mut self, mut expr: Expr) -> Result<Expr, Fault> {
        loop {
            match self.kind() {
                Kind::LeftBracket => expr = self.range(expr)?,
                Kind::Word(Word::Offset) => {
                    self.step();
                    let offset = self.offset()?;
                    let place = expr.place();
                    let Some((moved, end)) = moved_of(&mut expr) else {
                        return fault(place, must_follow("offset modifier"));
                    };
                    if moved.offset.is_some() {
                        return fault(place, "offset may not be set multiple times");
                    }
                    // An offset of nothing is none, and may be given again.
                    moved.offset = Some(offset).filter(|offset| !offset.is_zero());
                    *end = self.end();
                }
                Kind::At => {
                    self.step();
                    let at = self.at_time(expr.place())?;
                    let place = expr.place();
                    let Some((moved, end)) = moved_of(&mut expr) else {
                        return fault(place, must_follow("@ modifier"));
                    };
                    if moved.at.is_some() {
                        return fault(place, "@ <timestamp> may not be set multiple times");
                    }
                    moved.at = Some(at);
                    *end = self.end();
                }
                Kind::Word(word @ (Word::Anchored | Word::Smoothed)) => {
                    let word = *word;
                    self.step();
                    extend(&mut expr, word)?;
                }
                _ => return Ok(expr),
            }
        }
    }

    fn at_time(&mut self, place: Place) -> Result<At, Fault> {
        if let Kind::Word(word @ (Word::Start | Word::End)) = *self.kind() {
            self.step();
            if !self.take(&Kind::LeftParen) || !self.take(&Kind::RightParen) {
                return self.unexpected("@", "timestamp");
            }
            return Ok(if word == Word::Start { At::Start } else { At::End });
        }
        let negative = *self.kind() == Kind::Op(Op::Sub);
        if negative || *self.kind() == Kind::Op(Op::Add) {
            self.step();
        }
        if !matches!(self.kind(), Kind::Number | Kind::Duration) {
            return self.unexpected("@", "timestamp");
        }
        let (value, _) = self.number()?;
        let seconds = if negative { -value } else { value };
        if !seconds.is_finite() || seconds.abs() >= 9_223_372_036_854_775_807.0 {
            return fault(place, format!("timestamp out of bounds for @ modifier: {seconds:.6}"));
        }
        Ok(At::Time { ms: (seconds * 1000.0).round() as i64 })
    }

    fn range(&mut self, expr: Expr) -> Result<Expr, Fault> {
        let open = self.step();
        self.count_operator()?;
        if matches!(self.kind(), Kind::RightBracket | Kind::Colon) {
            return self
                .unexpected("subquery or range selector", "number, duration, step(), or range()");
        }
        let range = self.positive_length("subquery or range selector")?;
        if self.take(&Kind::Colon) {
            let mut step = None;
            if *self.kind() != Kind::RightBracket {
                step = Some(self.positive_length("subquery selector")?);
            }
            if *self.kind() != Kind::RightBracket {
                return self.unexpected("subquery selector", "\"]\"");
            }
            let place = expr.place().to(self.step());
            let moved = Moved::default();
            return Ok(Expr::Subquery(Box::new(Subquery { expr, range, step, moved, place })));
        }
        if *self.kind() != Kind::RightBracket {
            return self.unexpected("subquery or range", "\":\" or \"]\"");
        }
        let close = self.step();
        let brackets = open.to(close);
        let place = expr.place().to(close);
        let Expr::Vector(selector) = expr else {
            return fault(brackets, "ranges only allowed for vector selectors");
        };
        if selector.moved.offset.is_some() {
            return fault(brackets, "no offset modifiers allowed before range");
        }
        if selector.moved.at.is_some() {
            return fault(brackets, "no @ modifiers allowed before range");
        }
        Ok(Expr::Matrix(RangeSelector { selector, range, place }))
    }
}

fn must_follow(what: &str) -> String {
    format!(
        "{what} must be preceded by an instant vector selector or range vector selector or a subquery"
    )
}

/// What `offset` and `@` change, and where the expression ends.
fn moved_of(expr: &mut Expr) -> Option<(&mut Moved, &mut usize)> {
    match expr {
        Expr::Vector(selector) => Some((&mut selector.moved, &mut selector.place.end)),
        Expr::Matrix(matrix) => Some((&mut matrix.selector.moved, &mut matrix.place.end)),
        Expr::Subquery(subquery) => Some((&mut subquery.moved, &mut subquery.place.end)),
        _ => None,
    }
}

fn extend(expr: &mut Expr, word: Word) -> Result<(), Fault> {
    let place = expr.place();
    let (name, wanted) = match word {
        Word::Anchored => ("anchored", Extension::Anchored),
        _ => ("smoothed", Extension::Smoothed),
    };
    let selector = match expr {
        Expr::Vector(selector) => selector,
        Expr::Matrix(matrix) => &mut matrix.selector,
        Expr::Subquery(_) => {
            return fault(place, format!("{name} modifier is not supported for subqueries"));
        }
        _ => return fault(place, format!("{name} modifier not implemented")),
    };
    if selector.extension != Extension::None && selector.extension != wanted {
        return fault(place, "anchored and smoothed modifiers cannot be used together");
    }
    selector.extension = wanted;
    Ok(())
}
