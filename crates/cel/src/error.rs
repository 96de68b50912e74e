//! What can be wrong with an expression, and how its evaluation can end.

/// Where an expression is wrong, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error {
    pub(crate) at: usize,
    pub(crate) message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Error {
        Error { at, message: message.into() }
    }
}

/// Why an expression cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// In the words of the reference implementation: line, column, and the line itself with a mark.
    #[error("compilation failed: {0}")]
    Wrong(String),
    /// It can be evaluated, and its value would be of another type.
    #[error("must evaluate to a {0}")]
    Result(String),
}

impl CompileError {
    pub(crate) fn new(text: &str, errors: &[Error]) -> CompileError {
        let lines: Vec<String> = errors.iter().map(|error| located(text, error)).collect();
        CompileError::Wrong(lines.join("\n"))
    }
}

fn located(text: &str, error: &Error) -> String {
    let before = &text[..error.at.min(text.len())];
    let line = before.matches('\n').count();
    let column = before.chars().rev().take_while(|letter| *letter != '\n').count();
    let shown = text.lines().nth(line).unwrap_or_default();
    let mark = format!("{}^", ".".repeat(column));
    let (row, place) = (line + 1, column + 1);
    format!("ERROR: <input>:{row}:{place}: {}\n | {shown}\n | {mark}", error.message)
}

/// Why an evaluation has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// It would have cost more than it may.
    #[error("operation cancelled: actual cost limit exceeded")]
    TooCostly,
    /// Only where the types were not known before: the values do not fit the function.
    #[error("no such overload: {0}")]
    NoOverload(String),
    /// `no such key: a`, `division by zero` and the like.
    #[error("{0}")]
    Failed(String),
}

impl EvalError {
    pub(crate) fn failed(message: impl Into<String>) -> EvalError {
        EvalError::Failed(message.into())
    }
}
