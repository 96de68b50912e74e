//! The hard needs: which nodes may run an instance at all, and for each that may not, why and by
//! how much. A need is a row of [`NEEDS`]; a new one is a new row. Called by [`crate::compile`] for
//! all nodes and by [`crate::explain`] for one.

mod look;
mod reach;
mod rows;

use crate::ask::Ask;
use crate::bits::Bits;
use crate::continuum::{Amounts, Continuum};

pub(crate) use rows::NEEDS;

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
    /// `with 200Mi less memory`.
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

/// The nodes that may run the instance. Amounts are left to the search, so that instances that
/// differ in them alone can share the answer.
pub(crate) fn admitted<'a>(continuum: &Continuum<'a>, free: &[Amounts<'a>], ask: &Ask<'_>) -> Bits {
    let mut nodes = Bits::full(continuum.nodes.len());
    for Asked { need, number } in asked(ask) {
        if !need.amount {
            nodes.retain(|node| {
                let left = &free[node as usize];
                (need.admits)(&Look { continuum, left, ask, node }, number)
            });
        }
    }
    nodes
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
