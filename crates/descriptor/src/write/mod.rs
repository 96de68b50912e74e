//! Apps back into the formats that people bring: as far as a format can say it, and with a note for
//! every part that it cannot. Called by `tombolo convert`; start with [`write`].
//!
//! A writer takes out of its copy of the App whatever it has written. What is still there at the
//! end has not been said, and becomes notes ([`unsaid`]); so none can be forgotten.

mod codeco;
mod compose;
mod emit;
mod icos;
mod kubernetes;
mod native;
mod pod;
mod unsaid;

use std::fmt;
use std::str::FromStr;

use tombolo_model::component::Component;
use tombolo_model::run::Run;
use tombolo_model::{App, suggest};

pub use unsaid::Unsaid;

/// A format that Apps can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Native,
    Icos,
    Codeco,
    Compose,
    Kubernetes,
}

/// A text, and what it does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub text: String,
    /// The parts of the App that the format has no place for.
    pub notes: Vec<Unsaid>,
}

impl Target {
    pub const ALL: &[Target] =
        &[Target::Native, Target::Icos, Target::Codeco, Target::Compose, Target::Kubernetes];

    pub fn as_str(self) -> &'static str {
        match self {
            Target::Native => "native",
            Target::Icos => "icos",
            Target::Codeco => "codeco",
            Target::Compose => "compose",
            Target::Kubernetes => "kubernetes",
        }
    }
}

impl Target {
    /// Whether the format has a way to run a component. One that it cannot run is left out, with
    /// notes.
    pub fn runs(self, component: &Component) -> bool {
        let any = |can: fn(&Run) -> bool| component.run.iter().any(can);
        let container = any(|run| run.container.is_some());
        let manifests = any(|run| !run.manifests.is_empty());
        let compose = any(|run| run.compose.is_some());
        match self {
            Target::Native => true,
            Target::Icos => container || manifests || compose,
            Target::Codeco => container,
            Target::Compose => container || compose,
            Target::Kubernetes => container || manifests,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let names = || Target::ALL.iter().map(|target| target.as_str());
        let found = Target::ALL.iter().find(|target| target.as_str() == text);
        found.copied().ok_or_else(|| {
            let meant = suggest::did_you_mean(text, names());
            format!("{text:?} cannot be written; there is {}{meant}", suggest::one_of(names()))
        })
    }
}

/// Writes an App in a format.
pub fn write(app: &App, to: Target) -> Written {
    match to {
        Target::Native => native::write(app),
        Target::Icos => icos::write(app),
        Target::Codeco => codeco::write(app),
        Target::Compose => compose::write(app),
        Target::Kubernetes => kubernetes::write(app),
    }
}

/// Adds a key whose value is there.
fn put(
    map: &mut serde_json::Map<String, serde_json::Value>,
    key: &str,
    value: Option<impl Into<serde_json::Value>>,
) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests;
