//! Why something is as it is: the table of reasons. Who tells a cause carries a [`Reason`] and spells
//! neither its word nor its sentence.
//!
//! A word is for programs and never changes. `docs/reasons.md` lists the words, and a test keeps that
//! page and the table equal. Start with the rows in `table.rs`.

mod table;

use std::fmt;

pub use table::Reason;

/// Who or what has to change before it gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The people who run the App: a Secret or a right is missing.
    User,
    /// The component: what it asks for, or the program itself.
    Component,
    /// The machine: something must be installed, freed or allowed there.
    Node,
    /// The engine of the site.
    Engine,
    /// The network between the machine and what it needs.
    Network,
    /// The component or its node, and nobody can tell which.
    Either,
    /// Nobody knows.
    Unknown,
    /// Nothing is wrong, or nothing that lasts: there is nothing to do.
    Nobody,
}

impl Blame {
    /// Whether the same component may do better on another node.
    pub fn is_of_the_place(self) -> bool {
        match self {
            Blame::Node | Blame::Engine | Blame::Network | Blame::Either => true,
            Blame::User | Blame::Component | Blame::Unknown | Blame::Nobody => false,
        }
    }
}

impl Reason {
    /// The reason with this word, if the word is one of ours.
    pub fn of(word: &str) -> Option<Reason> {
        Reason::ALL.iter().copied().find(|reason| reason.word() == word)
    }

    /// Whether it tells how an instance ended, and not that it could not be started.
    pub fn is_an_end(self) -> bool {
        matches!(
            self,
            Reason::Completed
                | Reason::Error
                | Reason::Killed
                | Reason::OutOfMemory
                | Reason::Lost
                | Reason::Rebooted
                | Reason::Stopped
                | Reason::Ended
                | Reason::Unhealthy
        )
    }

    /// Whether nothing mends it before somebody changes something: whoever only waits, waits for ever.
    pub fn outlasts_waiting(self) -> bool {
        matches!(
            self,
            Reason::NoSuchImage
                | Reason::ImageDenied
                | Reason::CommandNotInImage
                | Reason::Invalid
                | Reason::RolledBack
        )
    }

    /// What the user reads first, with its blanks filled in: `says(&[("port", "80".into())])`.
    pub fn says(self, blanks: &[(&str, String)]) -> String {
        fill(self.sentence(), blanks)
    }

    /// What a person can do about it, with its blanks filled in; empty if there is nothing to do.
    pub fn advises(self, blanks: &[(&str, String)]) -> String {
        fill(self.help(), blanks)
    }
}

/// Puts values in place of `{names}`. A value is not searched for blanks: it may hold braces.
fn fill(template: &str, blanks: &[(&str, String)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, (name, after))) =
        rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        text.push_str(before);
        let value = blanks.iter().find(|(blank, _)| *blank == name).map(|(_, value)| value);
        debug_assert!(value.is_some(), "nobody fills the blank {name:?} of {template:?}");
        text.push_str(value.map_or("?", String::as_str));
        rest = after;
    }
    text.push_str(rest);
    text
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> String {
        reason.word().to_owned()
    }
}

/// So that a test can spell the word that programs out there read.
impl PartialEq<&str> for Reason {
    fn eq(&self, word: &&str) -> bool {
        self.word() == *word
    }
}

#[cfg(test)]
mod tests;
