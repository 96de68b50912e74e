//! Processor architectures and the many names they go by.

use std::fmt;
use std::str::FromStr;

use super::{Error, Words, in_json};
use crate::suggest;

const WORDS: Words =
    Words { what: "an architecture", allowed: "amd64, arm64, arm, 386, riscv64, ppc64le or s390x" };

/// Every accepted name; the first of each architecture is the one we write.
const NAMES: &[(Arch, &[&str])] = &[
    (Arch::Amd64, &["amd64", "x86_64", "x86-64", "x64", "intel", "intel64", "em64t"]),
    (Arch::Arm64, &["arm64", "aarch64", "armv8", "armv8l", "arm64v8"]),
    (Arch::Arm, &["arm", "armv7", "armv7l", "armv6l", "armhf", "arm32", "arm32v7"]),
    (Arch::X86, &["386", "i386", "i486", "i586", "i686", "x86"]),
    (Arch::Riscv64, &["riscv64", "riscv", "rv64"]),
    (Arch::Ppc64le, &["ppc64le", "powerpc64le"]),
    (Arch::S390x, &["s390x"]),
];

/// The instruction set of a processor. `intel`, `x86_64` and `amd64` are one, as are `aarch64`
/// and `arm64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    Amd64,
    Arm64,
    Arm,
    X86,
    Riscv64,
    Ppc64le,
    S390x,
}

in_json!(Arch, "arch", { "type": "string", "format": "arch" });

impl Arch {
    pub const ALL: [Arch; 7] =
        [Arch::Amd64, Arch::Arm64, Arch::Arm, Arch::X86, Arch::Riscv64, Arch::Ppc64le, Arch::S390x];

    pub fn name(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Arm64 => "arm64",
            Arch::Arm => "arm",
            Arch::X86 => "386",
            Arch::Riscv64 => "riscv64",
            Arch::Ppc64le => "ppc64le",
            Arch::S390x => "s390x",
        }
    }
}

impl FromStr for Arch {
    type Err = Error;

    fn from_str(text: &str) -> Result<Arch, Error> {
        let word = text.trim().to_lowercase();
        if let Some((arch, _)) = NAMES.iter().find(|(_, names)| names.contains(&word.as_str())) {
            return Ok(*arch);
        }
        let known = NAMES.iter().flat_map(|(_, names)| names.iter().copied());
        Err(WORDS.error(text, "", suggest::nearest(&word, known).map(str::to_owned)))
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
