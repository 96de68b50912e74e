//! A query as a tree: [`Expr`].

use crate::matcher::Matcher;

use super::functions::Function;
use super::token::{Aggregation, Op, Place};

/// What an expression gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Scalar,
    Text,
    Vector,
    Matrix,
}

impl Kind {
    /// As the documents of PromQL name it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Scalar => "scalar",
            Kind::Text => "string",
            Kind::Vector => "instant vector",
            Kind::Matrix => "range vector",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Number { value: f64, place: Place },
    Text { value: String, place: Place },
    Vector(Selector),
    Matrix(RangeSelector),
    Subquery(Box<Subquery>),
    Aggregate(Box<Aggregate>),
    Binary(Box<Binary>),
    Call(Call),
    Negative { expr: Box<Expr>, negate: bool, place: Place },
    Paren { expr: Box<Expr>, place: Place },
}

/// Series, and from when.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    /// The name that stood before the braces.
    pub name: Option<String>,
    pub matchers: Vec<Matcher>,
    pub moved: Moved,
    pub extension: Extension,
    pub place: Place,
}

/// How a selector treats what lies at the edges of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    None,
    /// The last value before the range counts as the one at its start.
    Anchored,
    /// Values at the edges are interpolated from those on either side.
    Smoothed,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RangeSelector {
    pub selector: Selector,
    pub range: Length,
    pub place: Place,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Subquery {
    pub expr: Expr,
    pub range: Length,
    pub step: Option<Length>,
    pub moved: Moved,
    pub place: Place,
}

/// `offset` and `@`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moved {
    pub offset: Option<Length>,
    pub at: Option<At>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum At {
    Time { ms: i64 },
    Start,
    End,
}

/// A duration, which may depend on the step and the range of the query.
#[derive(Clone, Debug, PartialEq)]
pub enum Length {
    Seconds(f64),
    Step,
    Range,
    Negative(Box<Length>),
    Both(LengthOp, Box<(Length, Length)>, Place),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Min,
    Max,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    pub op: Aggregation,
    pub expr: Expr,
    pub parameter: Option<Expr>,
    pub grouping: Vec<String>,
    pub without: bool,
    pub place: Place,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Binary {
    pub op: Op,
    pub left: Expr,
    pub right: Expr,
    /// Compare and give 0 or 1 instead of leaving out what does not hold.
    pub returns_bool: bool,
    pub matching: Matching,
    pub place: Place,
}

/// Which series of both sides belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Matching {
    pub side: Side,
    /// Whether `labels` are those that count, or those that do not.
    pub on: bool,
    pub labels: Vec<String>,
    /// Labels that the result takes from the side with one series.
    pub include: Vec<String>,
    /// What stands for a series that one side lacks.
    pub fill_left: Option<f64>,
    pub fill_right: Option<f64>,
}

/// Which side may have several series for one of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    OneToOne,
    ManyToOne,
    OneToMany,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub function: &'static Function,
    pub arguments: Vec<Expr>,
    pub place: Place,
}

impl Expr {
    pub fn kind(&self) -> Kind {
        match self {
            Expr::Number { .. } => Kind::Scalar,
            Expr::Text { .. } => Kind::Text,
            Expr::Vector(_) | Expr::Aggregate(_) => Kind::Vector,
            Expr::Matrix(_) | Expr::Subquery(_) => Kind::Matrix,
            Expr::Call(call) => call.function.gives,
            Expr::Negative { expr, .. } | Expr::Paren { expr, .. } => expr.kind(),
            Expr::Binary(binary) => match (binary.left.kind(), binary.right.kind()) {
                (Kind::Scalar, Kind::Scalar) => Kind::Scalar,
                _ => Kind::Vector,
            },
        }
    }

    pub fn place(&self) -> Place {
        match self {
            Expr::Number { place, .. }
            | Expr::Text { place, .. }
            | Expr::Negative { place, .. }
            | Expr::Paren { place, .. } => *place,
            Expr::Vector(selector) => selector.place,
            Expr::Matrix(matrix) => matrix.place,
            Expr::Subquery(subquery) => subquery.place,
            Expr::Aggregate(aggregate) => aggregate.place,
            Expr::Binary(binary) => binary.place,
            Expr::Call(call) => call.place,
        }
    }

    /// What stands in the parentheses, if there are any.
    pub(super) fn bare(&self) -> &Expr {
        match self {
            Expr::Paren { expr, .. } => expr.bare(),
            other => other,
        }
    }
}
