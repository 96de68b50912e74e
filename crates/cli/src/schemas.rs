//! The schemas of Tombolo's own kinds, compiled in, so that `explain`, `schema` and `crds` work
//! without a server. Called by those three.

use serde_json::Value;

use crate::{
    catalogue::{self, Resource},
    failure::{Exit, Failure},
};

/// One of our kinds by any of its names.
pub(crate) fn own_kind(word: &str) -> Result<Resource, Failure> {
    let own: Vec<Resource> = catalogue::built_in().into_iter().filter(is_own).collect();
    if let Some(resource) = catalogue::by_word(&own, word) {
        return Ok(resource.clone());
    }
    let kinds: Vec<&str> = tombolo_model::kind_names().collect();
    let failure = Failure::new(Exit::NotFound, format!("`{word}` is not one of Tombolo's kinds"));
    Err(failure.hint(match catalogue::suggestion(&own, word) {
        Some(suggestion) => format!("did you mean `{suggestion}`?"),
        None => format!("they are {}", kinds.join(", ")),
    }))
}

pub(crate) fn is_own(resource: &Resource) -> bool {
    resource.group == tombolo_model::keys::GROUP
}

/// The structural schema of one of our kinds; `None` for all others.
pub(crate) fn compiled_in(resource: &Resource) -> Option<Value> {
    let internal = tombolo_model::schema::internal(&resource.kind);
    internal.filter(|_| is_own(resource)).cloned()
}

/// The definitions as plain values, in the order in which people meet the kinds.
pub(crate) fn definitions() -> Result<Vec<Value>, Failure> {
    let own = tombolo_model::crds().iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>();
    own.map_err(|error| Failure::failed(format!("cannot write the definitions: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table is there for speed; the model decides.
    #[test]
    fn the_catalogue_agrees_with_the_model() {
        for definition in definitions().expect("plain data") {
            let expected = catalogue::from_definition(&definition);
            let expected = expected.first().expect("a served version");
            let found = catalogue::known(&expected.kind);
            assert_eq!(found.group, expected.group);
            assert_eq!(found.version, expected.version);
            assert_eq!(found.plural, expected.plural);
            assert_eq!(found.singular, expected.singular);
            assert_eq!(found.namespaced, expected.namespaced, "{}", expected.kind);
            let short_names = &definition["spec"]["names"]["shortNames"];
            let expected: Vec<&str> =
                short_names.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            assert_eq!(found.short_names, expected, "{}", found.kind);
        }
    }

    #[test]
    fn every_own_kind_has_a_schema_and_no_other_has() {
        for kind in tombolo_model::kind_names() {
            assert!(compiled_in(&catalogue::known(kind)).is_some(), "{kind}");
        }
        assert!(compiled_in(&catalogue::known("Secret")).is_none());
    }
}
