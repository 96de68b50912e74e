//! The words of PromQL: [`Token`]s, and the [`Op`]erators and [`Word`]s among them.

/// Bytes of the query, from the first to the one after the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub start: usize,
    pub end: usize,
}

impl Place {
    pub fn to(self, other: Place) -> Place {
        Place { start: self.start, end: other.end }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) place: Place,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A name without a colon.
    Identifier,
    /// A name with a colon: it can only be a metric's.
    Metric,
    Number,
    Duration,
    /// Still in its quotes.
    Text,
    Word(Word),
    Op(Op),
    /// `=` in braces, and outside of them a mistake.
    Equal,
    EqualRegex,
    NotRegex,
    LeftParen,
    RightParen,
    LeftBrace,
    RightBrace,
    LeftBracket,
    RightBracket,
    Comma,
    Colon,
    At,
    /// The lexer can go no further, for this reason.
    Wrong(String),
    End,
}

/// An operator between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Atan2,
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterEqual,
    LessEqual,
    TrimUpper,
    TrimLower,
    And,
    Or,
    Unless,
}

impl Op {
    pub fn sign(self) -> &'static str {
        match self {
            Op::Add => "+",
            Op::Sub => "-",
            Op::Mul => "*",
            Op::Div => "/",
            Op::Mod => "%",
            Op::Pow => "^",
            Op::Atan2 => "atan2",
            Op::Equal => "==",
            Op::NotEqual => "!=",
            Op::Greater => ">",
            Op::Less => "<",
            Op::GreaterEqual => ">=",
            Op::LessEqual => "<=",
            Op::TrimUpper => "</",
            Op::TrimLower => ">/",
            Op::And => "and",
            Op::Or => "or",
            Op::Unless => "unless",
        }
    }

    pub fn is_comparison(self) -> bool {
        use Op::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        matches!(self, Equal | NotEqual | Greater | Less | GreaterEqual | LessEqual)
    }

    pub fn is_set(self) -> bool {
        matches!(self, Op::And | Op::Or | Op::Unless)
    }

    /// Whether the result is another metric than the operand was.
    pub(super) fn changes_metric(self) -> bool {
        use Op::{Add, Atan2, Div, Mod, Mul, Pow, Sub};
        matches!(self, Add | Sub | Mul | Div | Mod | Pow | Atan2)
    }

    /// How tightly it binds; more is tighter.
    pub(super) fn strength(self) -> u8 {
        match self {
            Op::Or => 1,
            Op::And | Op::Unless => 2,
            Op::Equal
            | Op::NotEqual
            | Op::Greater
            | Op::Less
            | Op::GreaterEqual
            | Op::LessEqual => 3,
            Op::TrimUpper | Op::TrimLower => 3,
            Op::Add | Op::Sub => 4,
            Op::Mul | Op::Div | Op::Mod | Op::Atan2 => 5,
            Op::Pow => 6,
        }
    }
}

/// An aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    Sum,
    Avg,
    Count,
    Min,
    Max,
    Group,
    Stddev,
    Stdvar,
    Topk,
    Bottomk,
    CountValues,
    Quantile,
    Limitk,
    LimitRatio,
}

impl Aggregation {
    pub(super) fn has_parameter(self) -> bool {
        use Aggregation::{Bottomk, CountValues, LimitRatio, Limitk, Quantile, Topk};
        matches!(self, Topk | Bottomk | CountValues | Quantile | Limitk | LimitRatio)
    }

    pub fn name(self) -> &'static str {
        let row = WORDS.iter().find(|(_, word)| *word == Word::Aggregation(self));
        row.map_or("", |(name, _)| name)
    }
}

/// A word with a meaning. Most of them are also allowed as the name of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Aggregation(Aggregation),
    Op(Op),
    Offset,
    Smoothed,
    Anchored,
    By,
    Without,
    On,
    Ignoring,
    GroupLeft,
    GroupRight,
    Fill,
    FillLeft,
    FillRight,
    Bool,
    Start,
    End,
    Step,
    Range,
    MaxOf,
    MinOf,
}

impl Word {
    pub(super) fn of(text: &str) -> Option<Word> {
        let lower = text.to_ascii_lowercase();
        WORDS.iter().find(|(name, _)| *name == lower).map(|(_, word)| *word)
    }

    /// Whether a metric may have this name without quotes.
    pub(super) fn names_metric(self) -> bool {
        use Word::{Bool, GroupLeft, GroupRight, Ignoring, On};
        !matches!(self, Bool | GroupLeft | GroupRight | Ignoring | On | Word::Op(Op::Atan2))
    }

    /// Whether it is a function when a parenthesis follows.
    pub(super) fn names_function(self) -> bool {
        use Word::{End, MaxOf, MinOf, Range, Start, Step};
        matches!(self, Start | End | Step | Range | MaxOf | MinOf)
    }
}

const WORDS: &[(&str, Word)] = &[
    ("sum", Word::Aggregation(Aggregation::Sum)),
    ("avg", Word::Aggregation(Aggregation::Avg)),
    ("count", Word::Aggregation(Aggregation::Count)),
    ("min", Word::Aggregation(Aggregation::Min)),
    ("max", Word::Aggregation(Aggregation::Max)),
    ("group", Word::Aggregation(Aggregation::Group)),
    ("stddev", Word::Aggregation(Aggregation::Stddev)),
    ("stdvar", Word::Aggregation(Aggregation::Stdvar)),
    ("topk", Word::Aggregation(Aggregation::Topk)),
    ("bottomk", Word::Aggregation(Aggregation::Bottomk)),
    ("count_values", Word::Aggregation(Aggregation::CountValues)),
    ("quantile", Word::Aggregation(Aggregation::Quantile)),
    ("limitk", Word::Aggregation(Aggregation::Limitk)),
    ("limit_ratio", Word::Aggregation(Aggregation::LimitRatio)),
    ("and", Word::Op(Op::And)),
    ("or", Word::Op(Op::Or)),
    ("unless", Word::Op(Op::Unless)),
    ("atan2", Word::Op(Op::Atan2)),
    ("offset", Word::Offset),
    ("smoothed", Word::Smoothed),
    ("anchored", Word::Anchored),
    ("by", Word::By),
    ("without", Word::Without),
    ("on", Word::On),
    ("ignoring", Word::Ignoring),
    ("group_left", Word::GroupLeft),
    ("group_right", Word::GroupRight),
    ("fill", Word::Fill),
    ("fill_left", Word::FillLeft),
    ("fill_right", Word::FillRight),
    ("bool", Word::Bool),
    ("start", Word::Start),
    ("end", Word::End),
    ("step", Word::Step),
    ("range", Word::Range),
    ("max_of", Word::MaxOf),
    ("min_of", Word::MinOf),
];
