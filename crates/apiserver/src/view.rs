//! A kind that is another one under other names: Events, which `events.k8s.io` and the core group both have.
//! There is one store and one object; [`crate::encode`] translates on the way in and out, and nothing
//! else knows of it.

use serde_json::Value;

/// How the objects of a kind are kept under those of another.
#[derive(Debug)]
pub struct View {
    pub group: &'static str,
    pub version: &'static str,
    /// The fields that have another name there: here, and there.
    fields: &'static [(&'static str, &'static str)],
}

static EVENTS: View = View {
    group: "",
    version: "v1",
    fields: &[
        ("regarding", "involvedObject"),
        ("note", "message"),
        ("reportingController", "reportingComponent"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    ],
};

/// What the kind is a view of, if it is one.
pub(crate) fn of(group: &str, kind: &str) -> Option<&'static View> {
    ((group, kind) == ("events.k8s.io", "Event")).then_some(&EVENTS)
}

/// The group under which the objects of a resource are stored.
pub(crate) fn storage_group<'a>(group: &'a str, plural: &str) -> &'a str {
    match (group, plural) {
        ("events.k8s.io", "events") => EVENTS.group,
        (group, _) => group,
    }
}

impl View {
    /// From the form that is stored to that of the view, but for its version.
    pub(crate) fn show(&self, object: &mut Value) {
        rename(object, self.fields.iter().map(|(shown, stored)| (*stored, *shown)));
    }

    /// To the form that is stored.
    pub(crate) fn store(&self, object: &mut Value) {
        rename(object, self.fields.iter().copied());
        let api_version = match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        };
        object["apiVersion"] = Value::String(api_version);
    }
}

fn rename<'a>(object: &mut Value, fields: impl Iterator<Item = (&'a str, &'a str)>) {
    let Some(root) = object.as_object_mut() else { return };
    for (from, to) in fields {
        if let Some(value) = root.remove(from) {
            root.insert(to.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_comes_back_as_it_was() {
        let stored = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"},
            "involvedObject": {"kind": "App"}, "message": "said", "count": 3, "reason": "Because",
            "source": {"component": "c"}, "reportingComponent": "r",
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-02T00:00:00Z"});
        let mut object = stored.clone();
        EVENTS.show(&mut object);
        assert_eq!(
            object,
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"},
                "regarding": {"kind": "App"}, "note": "said", "deprecatedCount": 3,
                "reason": "Because", "deprecatedSource": {"component": "c"},
                "reportingController": "r", "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
                "deprecatedLastTimestamp": "2026-01-02T00:00:00Z"})
        );
        EVENTS.store(&mut object);
        assert_eq!(object, stored);
    }
}
