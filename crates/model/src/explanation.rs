//! What the server is asked about its decisions, and what it answers: where Apps would be placed, why a
//! component is not on a node, what would follow if something failed. Written and read as JSON by the
//! server, the shell, facades and the console; [`schema`] describes every message.
//!
//! How the questions travel is in `docs/adr/0013-explanations.md`.

use std::collections::BTreeMap;

use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::app::{App, Placement, Unplaced, Weights};
use crate::id::AppId;
use crate::link::Link;
use crate::named::named;
use crate::node::Node;
use crate::quantity::Duration;
use crate::site::Site;

/// Where a [`PlanRequest`] is sent.
pub const PLAN_PATH: &str = "/tombolo/plan";
/// Where a [`WhyRequest`] is sent.
pub const WHY_PATH: &str = "/tombolo/why";
/// Where a [`WhatIfRequest`] is sent.
pub const WHAT_IF_PATH: &str = "/tombolo/what-if";

/// How long to search for better places.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Search {
    /// Search until the best is proven or this time is over, in milliseconds; a fixed amount of work if
    /// left out.
    pub time_limit_ms: Option<u64>,
    /// The same input, seed and work give the same answer.
    pub seed: u64,
}

/// An App on the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AppName {
    pub namespace: String,
    pub name: String,
}

/// Where would these be placed? Nothing is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PlanRequest {
    /// Documents of kind App: as if they were applied.
    #[schemars(with = "Vec<Value>")]
    pub files: Vec<App>,
    /// Apps on the server: as if all of their places could be chosen anew. Not together with files.
    pub apps: Vec<AppName>,
    pub search: Search,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanAnswer {
    /// Whether everything in `apps` has a place.
    pub feasible: bool,
    /// The sum over all planned Apps, in hundredths of a point.
    pub objective: i64,
    /// No choice could have more.
    pub bound: i64,
    /// It was proven that nothing is better.
    pub optimal: bool,
    /// The Apps that were asked about, and what would change of others.
    pub apps: Vec<PlannedApp>,
    /// Apps that were asked about and stay as they are.
    pub settled: Vec<SettledApp>,
    /// What of the continuum could not be used, a sentence each.
    pub unusable: Vec<String>,
    /// What of the Apps could not be used, what was assumed or cut, a sentence each.
    pub notes: Vec<String>,
    /// So many Apps that would change are left out, because whoever asks may not read them.
    pub hidden: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedApp {
    /// `namespace/name`.
    pub app: String,
    /// Whether it was asked about.
    pub asked: bool,
    pub outcome: PlannedOutcome,
    pub instances: Vec<PlannedInstance>,
    pub unplaced: Vec<Unplaced>,
}

named! {
    /// What would become of an App.
    pub enum PlannedOutcome {
        /// Every instance has a place.
        Placed = "Placed",
        /// What is wanted has no place; what runs stays as it is.
        Kept = "Kept",
        /// It has no place, and nothing of it runs.
        Unplaced = "Unplaced",
        /// It contradicts itself.
        Refused = "Refused",
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedInstance {
    pub step: PlannedStep,
    /// Where it moves from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub placement: Placement,
}

named! {
    /// What would be done about an instance.
    pub enum PlannedStep {
        /// It runs nowhere yet.
        Start = "Start",
        /// It is where it should be.
        Stay = "Stay",
        /// It goes to another node or engine.
        Move = "Move",
        /// It should leave, and stays until others of its component are up again.
        Wait = "Wait",
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettledApp {
    /// `namespace/name`.
    pub app: String,
    pub placements: Vec<Placement>,
}

/// Why is this component not on that node?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WhyRequest {
    pub app: AppName,
    /// Each component of the App if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    pub node: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyAnswer {
    /// One for each component that was asked about.
    pub components: Vec<WhyComponent>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyComponent {
    pub component: String,
    pub node: String,
    /// All that keeps it off the node, the first cause first; nothing if it could run there.
    pub failing: Vec<String>,
    /// That it failed there not long ago, and other nodes are preferred for a while; a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub struck: Option<String>,
    /// 0 to 100, as if it could run there.
    pub score: f64,
    /// By criterion, 0 to 100 before weighing.
    pub terms: BTreeMap<String, f64>,
    /// Where it runs now.
    pub instead: Vec<Instead>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Instead {
    pub node: String,
    pub score: f64,
}

/// What would follow if all of this were so? Nothing is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct WhatIfRequest {
    /// These fail.
    pub fail: Vec<Target>,
    /// These are drained: a Site or a Node.
    pub drain: Vec<Target>,
    /// These links take so long.
    pub delay: Vec<Delay>,
    /// Documents of kind Site, Node and Link that are added.
    #[schemars(with = "Vec<Value>")]
    pub add_sites: Vec<Site>,
    #[schemars(with = "Vec<Value>")]
    pub add_nodes: Vec<Node>,
    #[schemars(with = "Vec<Value>")]
    pub add_links: Vec<Link>,
    /// In place of the weights of every App.
    pub weights: Option<Weights>,
    pub search: Search,
}

/// A link, and how long it takes, one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delay {
    pub link: String,
    pub latency: Duration,
}

/// Something of the continuum, by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    pub kind: TargetKind,
    pub name: String,
}

named! {
    /// What can fail.
    pub enum TargetKind {
        /// A site, with all of its nodes.
        Site = "Site",
        /// A node.
        Node = "Node",
        /// A link.
        Link = "Link",
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhatIfAnswer {
    /// Whether everything would have a place.
    pub feasible: bool,
    /// The sum over all planned Apps, in hundredths of a point.
    pub objective: i64,
    /// No choice could have more.
    pub bound: i64,
    pub differences: Vec<Difference>,
    /// So many differences are left out, because whoever asks may not read their Apps.
    pub hidden: usize,
}

/// What would become of one instance that is not where it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// `namespace/name`.
    pub app: String,
    pub component: String,
    pub replica: u32,
    /// The node it runs on; null if it does not run.
    pub from: Option<String>,
    /// The node it would run on; null if there is no place for it.
    pub to: Option<String>,
    pub why: String,
}

impl AppName {
    pub fn of(id: &AppId) -> AppName {
        AppName { namespace: id.namespace().to_owned(), name: id.name().to_owned() }
    }

    pub fn id(&self) -> AppId {
        AppId::new(&self.namespace, &self.name)
    }
}

/// Every message by its name, as JSON Schema (draft 2020-12).
pub fn schema() -> Value {
    let mut generator = SchemaGenerator::default();
    generator.subschema_for::<PlanRequest>();
    generator.subschema_for::<PlanAnswer>();
    generator.subschema_for::<WhyRequest>();
    generator.subschema_for::<WhyAnswer>();
    generator.subschema_for::<WhatIfRequest>();
    generator.subschema_for::<WhatIfAnswer>();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": generator.take_definitions(true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_every_message() {
        let schema = schema();
        let messages = [
            "PlanRequest",
            "PlanAnswer",
            "WhyRequest",
            "WhyAnswer",
            "WhatIfRequest",
            "WhatIfAnswer",
        ];
        for message in messages {
            assert!(schema["$defs"][message]["properties"].is_object(), "{message}: {schema}");
        }
        let kinds = &schema["$defs"]["TargetKind"];
        assert!(kinds.to_string().contains("\"Link\""), "{kinds}");
    }

    #[test]
    fn a_question_with_a_slip_of_the_pen_is_not_answered_as_another_one() {
        let read = |value: Value| serde_json::from_value::<WhatIfRequest>(value);
        let fail = json!([{"kind": "Node", "name": "n1"}]);
        assert_eq!(read(json!({"fail": fail})).unwrap().fail[0].kind, TargetKind::Node);
        assert!(read(json!({"fails": fail})).is_err());
        assert!(read(json!({"fail": [{"kind": "Planet", "name": "n1"}]})).is_err());
    }

    #[test]
    fn an_app_is_named_as_its_id() {
        let id = AppId::new("shop", "web");
        assert_eq!(AppName::of(&id).id(), id);
    }
}
