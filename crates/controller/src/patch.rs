//! Writes that several loops make: a field as a whole, if the object is still the one that was looked
//! at, and an object as it is wanted, whoever else has written to it.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

/// Sets what is at `path`; fails if the object no longer has that version. What the value there said
/// and no longer says is gone with it.
pub(crate) fn guarded(
    version: Option<String>,
    path: &str,
    value: Value,
) -> Result<json_patch::Patch, kube::Error> {
    let patch = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": path, "value": value},
    ]);
    serde_json::from_value(patch).map_err(kube::Error::SerdeError)
}

/// Applies an object of any kind in a namespace: what it names becomes so, what it does not name
/// stays. `manager` is who we are in managedFields.
pub async fn apply(
    client: &Client,
    namespace: &str,
    object: &Value,
    manager: &str,
) -> Result<DynamicObject, kube::Error> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let params = PatchParams::apply(manager).force();
    api.patch(&text(&object["metadata"]["name"]), &params, &Patch::Apply(object)).await
}
