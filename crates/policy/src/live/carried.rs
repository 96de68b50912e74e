//! Policies that Apps carry become Policies of their own, which the App owns: there is one place in which the state of a
//! policy is kept. Start at [`of_apps`].

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use tombolo_model::app::AppPolicy;
use tombolo_model::keys::{API_VERSION, LABEL_APP};
use tombolo_model::policy::{Policy, PolicySpec};
use tombolo_model::{App, Shared};

use crate::Watched;

/// What is to be done so that the policies of Apps are there.
#[derive(Clone, Debug, PartialEq)]
pub enum Carried {
    Create(Box<Policy>),
    /// The spec is another, if the object is still the one that was looked at.
    Update {
        namespace: String,
        name: String,
        resource_version: String,
        spec: Box<PolicySpec>,
    },
    /// The App no longer has it.
    Delete {
        namespace: String,
        name: String,
        uid: String,
    },
}

/// Whose name is taken by a policy that somebody else wrote is left alone: it would be overwritten.
pub fn of_apps(apps: &[Shared<App>], policies: &[Shared<Policy>]) -> Vec<Carried> {
    let key = |metadata: &ObjectMeta| {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        (part(&metadata.namespace), part(&metadata.name))
    };
    let known: BTreeMap<(String, String), &Shared<Policy>> =
        policies.iter().map(|policy| (key(&policy.metadata), policy)).collect();
    let mut actions = Vec::new();
    let mut wanted = std::collections::BTreeSet::new();
    let uids: BTreeMap<&str, &App> =
        apps.iter().filter_map(|app| Some((app.metadata.uid.as_deref()?, app.as_ref()))).collect();
    let living = apps.iter().filter(|app| app.metadata.deletion_timestamp.is_none());
    for app in living {
        for policy in &app.spec.policies {
            let own = object(app, policy);
            let key = key(&own.metadata);
            wanted.insert(key.clone());
            match known.get(&key) {
                None => actions.push(Carried::Create(Box::new(own))),
                Some(there) if !is_owned(there, app) => (),
                Some(there) if there.spec == own.spec => (),
                Some(there) => actions.push(Carried::Update {
                    namespace: key.0,
                    name: key.1,
                    resource_version: there.metadata.resource_version.clone().unwrap_or_default(),
                    spec: Box::new(own.spec),
                }),
            }
        }
    }
    for (key, policy) in &known {
        let owner = policy.metadata.owner_references.iter().flatten();
        let is_ours = owner.into_iter().any(|owner| uids.contains_key(owner.uid.as_str()));
        let (Some(uid), true) = (&policy.metadata.uid, is_ours && !wanted.contains(key)) else {
            continue;
        };
        if policy.metadata.deletion_timestamp.is_none() {
            let (namespace, name) = key.clone();
            actions.push(Carried::Delete { namespace, name, uid: uid.clone() });
        }
    }
    actions
}

fn is_owned(policy: &Policy, app: &App) -> bool {
    let owners = policy.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| Some(&owner.uid) == app.metadata.uid.as_ref())
}

fn object(app: &App, carried: &AppPolicy) -> Policy {
    let name = app.metadata.name.clone().unwrap_or_default();
    let watched = Watched::of_app(&name, carried);
    let spec = PolicySpec {
        subject: watched.subject,
        condition: carried.condition.clone(),
        remediation: carried.remediation.clone(),
        scaling: carried.scaling.clone(),
        severity: carried.severity,
        mode: carried.mode,
        suspended: carried.suspended,
    };
    let owner = OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: "App".to_owned(),
        name: name.clone(),
        uid: app.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    let metadata = ObjectMeta {
        // A name of a policy within an App has no dot, so no two of these are the same.
        name: Some(format!("{name}.{}", carried.name)),
        namespace: app.metadata.namespace.clone(),
        labels: Some(BTreeMap::from([(LABEL_APP.to_owned(), name)])),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    Policy { metadata, spec, status: None }
}
