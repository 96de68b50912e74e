//! What is wrong with an object of one of our kinds, all of it at once. Called by the API server
//! before it stores anything, by `tombolo validate` and by the descriptor readers.
//!
//! It works on the JSON as it came, because only there are the fields that a typed reader would
//! drop or refuse. Two passes: [`structure`] holds the object against its schema (types, unknown
//! and missing fields, ranges, quantities, names), [`meaning`] checks what one field says about
//! another. Together they find everything that a schema check would: for these kinds no other
//! check is needed.

mod at;
mod formats;
mod meaning;
mod metadata;
mod policy;
mod scaling;
mod structure;

use serde_json::Value;

use crate::invalid::{Invalid, Problem, shown};
use crate::schema;
use crate::suggest;

/// More would help nobody, and an object can be made of errors only.
pub const INVALID_MAX: usize = 100;

/// Checks an object by the kind that it names.
pub fn object(value: &Value) -> Vec<Invalid> {
    match value.get("kind").and_then(Value::as_str) {
        Some(kind) if schema::internal(kind).is_some() => of_kind(kind, value),
        Some(kind) => {
            let allowed = suggest::one_of(schema::kind_names());
            let meant = suggest::did_you_mean(kind, schema::kind_names());
            let message = format!("unknown kind {}; there is {allowed}{meant}", shown(kind));
            vec![Invalid::new("kind", Problem::NotSupported, message)]
        }
        None => vec![Invalid::new("kind", Problem::Required, "is required")],
    }
}

pub fn app(value: &Value) -> Vec<Invalid> {
    of_kind("App", value)
}

pub fn assignment(value: &Value) -> Vec<Invalid> {
    of_kind("Assignment", value)
}

pub fn site(value: &Value) -> Vec<Invalid> {
    of_kind("Site", value)
}

pub fn node(value: &Value) -> Vec<Invalid> {
    of_kind("Node", value)
}

pub fn link(value: &Value) -> Vec<Invalid> {
    of_kind("Link", value)
}

pub fn policy(value: &Value) -> Vec<Invalid> {
    of_kind("Policy", value)
}

pub fn join_token(value: &Value) -> Vec<Invalid> {
    of_kind("JoinToken", value)
}

/// Checks an object of a kind. A kind that is not ours has nothing wrong with it here.
pub fn of_kind(kind: &str, value: &Value) -> Vec<Invalid> {
    let Some(schema) = schema::internal(kind) else { return Vec::new() };
    let mut findings = Findings::default();
    let Value::Object(object) = value else {
        findings.add(
            "",
            Problem::TypeInvalid,
            format!("expected an object, found {}", structure::describe(value)),
        );
        return findings.into_list();
    };
    metadata::check(kind, object, &mut findings);
    structure::check_root(object, schema, &mut findings);
    let rules: fn(&Value, &mut Findings) = match kind {
        "App" => meaning::app,
        "Assignment" => meaning::assignment,
        "Site" => meaning::site,
        "Node" => meaning::node,
        "Link" => meaning::link,
        "Policy" => policy::policy,
        _ => |_, _| (),
    };
    rules(value, &mut findings);
    findings.into_list()
}

/// What was found so far.
#[derive(Debug, Default)]
struct Findings {
    list: Vec<Invalid>,
    left_out: usize,
}

impl Findings {
    fn add(&mut self, field: impl Into<String>, problem: Problem, message: impl Into<String>) {
        match self.is_full() {
            true => self.leave_out(),
            false => self.list.push(Invalid::new(field, problem, message)),
        }
    }

    /// Whether whatever else is wrong is only counted.
    fn is_full(&self) -> bool {
        self.list.len() >= INVALID_MAX
    }

    fn leave_out(&mut self) {
        self.left_out += 1;
    }

    fn into_list(mut self) -> Vec<Invalid> {
        if self.left_out > 0 {
            let message = format!("{} more problems are not listed", self.left_out);
            self.list.push(Invalid::new("", Problem::TooMany, message));
        }
        self.list
    }
}
