//! Landlock's scopes: no signals and no abstract sockets across the border of an instance, and no
//! tracing. Kernels before 6.12 have none; `abilities` tells so.

use std::io;

use landlock::{
    BitFlags, CompatLevel, Compatible, RestrictionStatus, Ruleset, RulesetAttr, RulesetStatus,
    Scope,
};

use super::{Manner, said};

/// Narrows the calling process, as far as the kernel can.
pub(super) fn narrow(manner: Manner) -> io::Result<()> {
    restrict(scopes(manner)).map(|_| ())
}

/// Whether the kernel knows all of it. Narrows the calling process.
pub(super) fn are_known() -> bool {
    let all = Scope::AbstractUnixSocket | Scope::Signal;
    restrict(all).is_ok_and(|status| status.ruleset == RulesetStatus::FullyEnforced)
}

/// A user of its own signals nobody else already, and a command inside may signal the instance. Who
/// shares our user must not signal us.
fn scopes(manner: Manner) -> BitFlags<Scope> {
    match manner {
        Manner::OwnUser => Scope::AbstractUnixSocket.into(),
        Manner::UserNamespace | Manner::Shared => Scope::AbstractUnixSocket | Scope::Signal,
    }
}

fn restrict(scopes: BitFlags<Scope>) -> io::Result<RestrictionStatus> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort).scope(scopes);
    let restricted = ruleset.and_then(Ruleset::create).and_then(|ruleset| ruleset.restrict_self());
    restricted.map_err(|error| said("narrow its scopes", io::Error::other(error)))
}
