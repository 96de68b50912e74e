//! The Common Expression Language as Kubernetes has it: [`Program::compile`] reads a rule and checks it against the
//! types of what it is about, [`Program::evaluate`] gives its value within a [`Budget`].
//!
//! Why no crate: those there are (`cel`, `kube-cel`) evaluate without types and without a bound. A rule with a
//! misspelt field would be stored and fail later, and one with three loops would hold a thread for hours.
//! Start at [`Program`]; what a rule may call is in `functions`.

mod ast;
mod budget;
mod check;
mod error;
mod eval;
mod functions;
mod parse;
mod token;
mod types;
mod value;

use serde_json::Value as Json;

use ast::{Expr, Form};
pub use budget::{Budget, OBJECT_COST_MAX, RULE_COST_MAX};
pub use error::{CompileError, EvalError};
pub use types::{Field, Object, Type};
use value::Value;

/// The names that a rule knows.
const SELF: &str = "self";
const OLD_SELF: &str = "oldSelf";

/// A rule that was read, and fits the types.
#[derive(Debug)]
pub struct Program {
    expr: Expr,
    self_type: Type,
    old_type: Type,
    result: Type,
    uses_old_self: bool,
}

/// What a rule is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub value: &'a Json,
    pub old: Option<&'a Json>,
}

impl Program {
    /// `old_type` is the type of `oldSelf`, which may be an optional one.
    pub fn compile(text: &str, self_type: Type, old_type: Type) -> Result<Program, CompileError> {
        let expr = parse::parse(text).map_err(|error| CompileError::new(text, &[error]))?;
        let variables = [(SELF, self_type.clone()), (OLD_SELF, old_type.clone())];
        let result =
            check::check(&expr, &variables).map_err(|errors| CompileError::new(text, &errors))?;
        let uses_old_self = names(&expr, OLD_SELF);
        Ok(Program { expr, self_type, old_type, result, uses_old_self })
    }

    /// The same, of a rule whose value must be of a type.
    pub fn compile_to(
        text: &str,
        self_type: Type,
        old_type: Type,
        wanted: &Type,
    ) -> Result<Program, CompileError> {
        let program = Program::compile(text, self_type, old_type)?;
        match program.result == *wanted {
            true => Ok(program),
            false => Err(CompileError::Result(wanted.to_string())),
        }
    }

    pub fn uses_old_self(&self) -> bool {
        self.uses_old_self
    }

    /// Whether the rule holds.
    pub fn holds(&self, subject: Subject<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
        match self.evaluate(subject, budget)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(EvalError::failed(format!("the rule gave a {}", other.type_name()))),
        }
    }

    /// What a message expression says.
    pub fn says(&self, subject: Subject<'_>, budget: &mut Budget) -> Result<String, EvalError> {
        match self.evaluate(subject, budget)? {
            Value::String(text) => Ok((*text).to_owned()),
            other => Err(EvalError::failed(format!("the message gave a {}", other.type_name()))),
        }
    }

    fn evaluate<'a>(
        &'a self,
        subject: Subject<'a>,
        budget: &mut Budget,
    ) -> Result<Value<'a>, EvalError> {
        let variables =
            [(SELF, Some(subject.value), &self.self_type), (OLD_SELF, subject.old, &self.old_type)];
        budget.one_rule(|budget| eval::evaluate(&self.expr, &variables, budget))
    }
}

/// The name by which expressions know a field; none for what they cannot name.
pub fn escaped(name: &str) -> Option<String> {
    const RESERVED: &[&str] = &[
        "true",
        "false",
        "null",
        "in",
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
    let first = name.chars().next()?;
    if first.is_ascii_digit() {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let name = name.replace("__", "__underscores__");
    let mut text = String::new();
    for letter in name.chars() {
        match letter {
            '.' => text.push_str("__dot__"),
            '-' => text.push_str("__dash__"),
            '/' => text.push_str("__slash__"),
            letter if letter.is_ascii_alphanumeric() || letter == '_' => text.push(letter),
            _ => return None,
        }
    }
    Some(text)
}

/// Whether a variable is named anywhere. One of a loop hides it, but who would call one so.
fn names(expr: &Expr, name: &str) -> bool {
    matches!(&expr.form, Form::Name(found) if found == name)
        || expr.form.children().into_iter().any(|child| names(child, name))
}

#[cfg(test)]
mod tests;
