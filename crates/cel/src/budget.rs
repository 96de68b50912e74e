//! What an evaluation may cost. The unit is a step: one node of the tree, one element looked at, ten bytes of
//! text; about what Kubernetes counts, so that the same rules run out.

use std::collections::BTreeMap;
use std::rc::Rc;

use regex::{Regex, RegexBuilder};

use crate::error::EvalError;

/// Of one evaluation of one rule, and of all rules of one object together: the limits of Kubernetes.
pub const RULE_COST_MAX: u64 = 1_000_000;
pub const OBJECT_COST_MAX: u64 = 10_000_000;

/// What a rule may make in memory, in bytes: texts and lists can double with every step. A step that makes
/// nothing large costs no memory, so that this bounds what the budget of steps does not.
pub(crate) const MADE_BYTES_MAX: usize = 16 * 1024 * 1024;

const BYTES_PER_STEP: usize = 10;

/// What reading a regular expression costs for each of its bytes: it becomes an automaton.
const STEPS_PER_PATTERN_BYTE: usize = 20;
/// Of one automaton.
const REGEX_BYTES_MAX: usize = 256 * 1024;
/// A rule for each item of a list asks for the same one again and again.
const REGEXES_KEPT_MAX: usize = 32;

#[derive(Debug)]
pub struct Budget {
    left: u64,
    made: usize,
    regexes: BTreeMap<String, Rc<Regex>>,
}

impl Budget {
    pub fn new(steps: u64) -> Budget {
        Budget { left: steps, made: 0, regexes: BTreeMap::new() }
    }

    pub fn left(&self) -> u64 {
        self.left
    }

    pub(crate) fn spend(&mut self, steps: usize) -> Result<(), EvalError> {
        match self.left.checked_sub(steps as u64) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(EvalError::TooCostly)
            }
        }
    }

    pub(crate) fn spend_on_bytes(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.spend(bytes.div_ceil(BYTES_PER_STEP))
    }

    /// Asked before something of this size is made.
    pub(crate) fn make(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.made = self.made.saturating_add(bytes);
        if self.made > MADE_BYTES_MAX {
            return Err(EvalError::TooCostly);
        }
        self.spend_on_bytes(bytes)
    }

    pub(crate) fn regex(&mut self, pattern: &str) -> Result<Rc<Regex>, EvalError> {
        if let Some(known) = self.regexes.get(pattern) {
            return Ok(known.clone());
        }
        self.spend(pattern.len().saturating_mul(STEPS_PER_PATTERN_BYTE))?;
        let built = RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).build();
        let built = built.map_err(|problem| {
            EvalError::failed(format!("error parsing regexp: {}", last_line(&problem.to_string())))
        })?;
        let built = Rc::new(built);
        if self.regexes.len() < REGEXES_KEPT_MAX {
            self.regexes.insert(pattern.to_owned(), built.clone());
        }
        Ok(built)
    }

    /// Lets one rule spend of what is left for all, and no more than a rule may.
    pub(crate) fn one_rule<T>(
        &mut self,
        run: impl FnOnce(&mut Budget) -> Result<T, EvalError>,
    ) -> Result<T, EvalError> {
        let all = self.left;
        self.left = all.min(RULE_COST_MAX);
        self.made = 0;
        let given = self.left;
        let result = run(self);
        self.left = all - (given - self.left);
        result
    }
}

/// The others draw the pattern.
fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default().trim_start_matches("error: ")
}
