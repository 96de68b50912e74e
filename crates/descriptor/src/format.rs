//! The formats, and the words that name them on the command line and in annotations.

use std::fmt;
use std::str::FromStr;

use tombolo_model::suggest;

/// A format of application descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Our own: `tombolo.dev/v1alpha1`.
    Native,
    Icos,
    /// CODECO's CodecoApp.
    Codeco,
    /// CHARITY's LowLevelOrchestration.
    CharityOrchestration,
    /// CHARITY's TOSCA blueprint.
    CharityTosca,
    /// ACCORDION's TOSCA models.
    Ceaml,
    Compose,
    /// Plain Kubernetes manifests.
    Kubernetes,
    /// EdgeNet's selective deployments.
    EdgeNet,
}

impl Format {
    /// Every format, in the order of declaration.
    pub const ALL: &[Format] = &[
        Format::Native,
        Format::Icos,
        Format::Codeco,
        Format::CharityOrchestration,
        Format::CharityTosca,
        Format::Ceaml,
        Format::Compose,
        Format::Kubernetes,
        Format::EdgeNet,
    ];

    /// The word on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Native => "native",
            Format::Icos => "icos",
            Format::Codeco => "codeco",
            Format::CharityOrchestration => "charity-orchestration",
            Format::CharityTosca => "charity-tosca",
            Format::Ceaml => "ceaml",
            Format::Compose => "compose",
            Format::Kubernetes => "kubernetes",
            Format::EdgeNet => "edgenet",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(word: &str) -> Result<Format, String> {
        let words = || Format::ALL.iter().map(|format| format.as_str());
        let found = Format::ALL.iter().find(|format| format.as_str() == word);
        found.copied().ok_or_else(|| {
            let meant = suggest::did_you_mean(word, words());
            format!("unknown format {word:?}; there is {}{meant}", suggest::one_of(words()))
        })
    }
}
