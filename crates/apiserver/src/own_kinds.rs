//! Our own kinds: their definitions are written to the store when the server starts, and from
//! then on they are served like anybody's; what their schemas cannot say is checked here.

use serde_json::Value;
use tombolo_model::{Invalid, keys, validate};

use crate::kinds::Kind;

/// The definitions that this release brings along.
pub(crate) fn definitions() -> Vec<Value> {
    let own = tombolo_model::crds().into_iter().map(serde_json::to_value);
    let own: Vec<Value> = own.collect::<Result<_, _>>().expect("a definition is plain JSON");
    own.into_iter().chain(tombolo_descriptor::foreign::definitions()).collect()
}

pub(crate) fn is_own(kind: &Kind) -> bool {
    kind.group == keys::GROUP
}

/// Whether a definition of this name is one of ours.
pub(crate) fn defines_own(name: &str) -> bool {
    name.strip_suffix(keys::GROUP).is_some_and(|rest| rest.ends_with('.'))
}

/// All that is wrong with an object of a kind of ours; nothing about the kinds of others.
pub(crate) fn problems(kind: &Kind, object: &Value) -> Vec<Invalid> {
    if is_own(kind) { validate::of_kind(&kind.kind, object) } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd;

    #[test]
    fn every_kind_of_ours_can_be_served() {
        for definition in definitions() {
            let name = &definition["metadata"]["name"];
            let kinds = crd::kinds(&definition);
            assert!(kinds.as_ref().is_ok_and(|kinds| !kinds.is_empty()), "{name}: {kinds:?}");
        }
    }
}
