//! The hard needs: which nodes may run an instance at all, and for each that may not, why and by
//! how much. A need is a row of [`NEEDS`]; a new one is a new row. Called by [`crate::compile`] for
//! all nodes and by [`crate::explain`] for one.

mod allowed;
mod labels;
mod look;
mod reach;
mod rows;

use std::collections::BTreeMap;

use crate::ask::Ask;
use crate::bits::Bits;
use crate::continuum::{Amounts, Continuum};

use labels::Labels;
pub(crate) use look::label;
pub(crate) use rows::{NEEDS, taint_words, tolerated};

/// A hard need. What is asked several times (labels, devices) has a number for each.
pub(crate) struct Need {
    pub name: &'static str,
    /// Whether it is about an amount that instances take from each other. The search keeps count of
    /// those itself.
    pub amount: bool,
    /// Whether everybody needs it, without saying so.
    pub granted: bool,
    /// How many of them the instance asks for; 0 for most.
    pub count: fn(&Ask<'_>) -> usize,
    /// All that `admits` looks at besides the node and whether the instance runs there: who asks
    /// the same shares the answer.
    pub asks: fn(&Ask<'_>, usize) -> String,
    pub admits: fn(&Look<'_, '_>, usize) -> bool,
    /// What is needed: `2 cpu`, `a node that is ready`.
    pub wants: fn(&Ask<'_>, usize) -> String,
    /// What is there instead: `has 1.5`, `is amd64`.
    pub has: fn(&Look<'_, '_>, usize) -> String,
    /// What would help.
    pub mend: fn(&Look<'_, '_>, usize) -> Mend,
}

/// A change that would make a node fit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mend {
    /// The part of the need that is missing, 0 to 1; 2 and more when it is no matter of degree.
    pub effort: f64,
    /// `with 1Gi memory instead of 2Gi`.
    pub says: String,
}

/// One instance looks at one node.
#[derive(Clone, Copy)]
pub(crate) struct Look<'l, 'a> {
    pub continuum: &'l Continuum<'a>,
    /// What the node has left.
    pub left: &'l Amounts<'a>,
    pub ask: &'l Ask<'l>,
    pub node: u32,
}

/// One need of one instance: a row and the number within it.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub need: &'static Need,
    pub number: usize,
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}[{}]", self.need.name, self.number)
    }
}

/// All the needs of an instance.
pub(crate) fn asked(ask: &Ask<'_>) -> Vec<Asked> {
    let each =
        |need: &'static Need| (0..(need.count)(ask)).map(move |number| Asked { need, number });
    NEEDS.iter().flat_map(each).collect()
}

/// Which nodes meet which need, found once for all instances that ask for it.
#[derive(Debug, Default)]
pub(crate) struct Sieve<'a> {
    met: BTreeMap<Question, Bits>,
    labels: Labels<'a>,
}

/// The name of a need, and what is asked.
pub(crate) type Question = (&'static str, String);

impl<'a> Sieve<'a> {
    /// The nodes that may run the instance. Amounts are left to the search, so that instances that
    /// differ in them alone can share the answer.
    pub(crate) fn admitted(
        &mut self,
        continuum: &Continuum<'a>,
        free: &[Amounts<'a>],
        ask: &Ask<'_>,
    ) -> Bits {
        let new = Ask { staying: None, ..ask.clone() };
        let mut nodes = Bits::full(continuum.nodes.len());
        for (asked, question) in asked(ask).into_iter().zip(questions(ask)) {
            if asked.need.amount {
                continue;
            }
            if !self.met.contains_key(&question) {
                let met = match question.0 {
                    rows::LABELS => self.labels.met(continuum, rows::label(ask, asked.number)),
                    _ => met(continuum, free, &new, asked),
                };
                self.met.insert(question.clone(), met);
            }
            nodes.and(&self.met[&question]);
        }
        if let Some(node) = ask.staying {
            let look = Look { continuum, left: &free[node as usize], ask, node };
            let kept =
                |asked: &Asked| asked.need.amount || (asked.need.admits)(&look, asked.number);
            match asked(ask).iter().all(kept) {
                true => nodes.insert(node),
                false => nodes.remove(node),
            }
        }
        nodes
    }
}

fn met<'a>(continuum: &Continuum<'a>, free: &[Amounts<'a>], ask: &Ask<'_>, asked: Asked) -> Bits {
    let mut met = Bits::full(continuum.nodes.len());
    met.retain(|node| {
        let left = &free[node as usize];
        (asked.need.admits)(&Look { continuum, left, ask, node }, asked.number)
    });
    met
}

/// What the instance asks of a node, one for each of [`asked`]; two with the same questions that are
/// not about amounts are admitted to the same nodes.
pub(crate) fn questions(ask: &Ask<'_>) -> Vec<Question> {
    let question = |Asked { need, number }: Asked| (need.name, (need.asks)(ask, number));
    asked(ask).into_iter().map(question).collect()
}

/// Every need that the node does not meet.
pub(crate) fn failing(look: &Look<'_, '_>) -> Vec<Asked> {
    asked(look.ask).into_iter().filter(|asked| !(asked.need.admits)(look, asked.number)).collect()
}

impl Asked {
    /// `needs 2 cpu, has 1.5`.
    pub(crate) fn rejection(&self, look: &Look<'_, '_>) -> String {
        let wants = (self.need.wants)(look.ask, self.number);
        format!("needs {wants}, {}", (self.need.has)(look, self.number))
    }
}

#[cfg(test)]
mod tests;
