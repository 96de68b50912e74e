//! What a definition must keep to beyond the schema of definitions.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::status::{Invalid, Problem};
use tombolo_document::jsonpath;
use tombolo_document::schema::{Additional, Expressions, Findings, Path, Schema, Type};

use super::{list, names, text};

/// The only parts of the metadata that a definition may restrict: the rest is the server's.
pub(super) const METADATA_RESTRICTED: [&str; 2] = ["name", "generateName"];

/// Each version is a tree of its own in memory.
const VERSIONS_MAX: usize = 32;

/// A table that nobody could read.
const COLUMNS_MAX: usize = 64;

/// Everything that is wrong with a definition whose shape is right: it went through the schema of
/// its own kind before.
pub fn validate(crd: &Value) -> Vec<Invalid> {
    let mut findings = Findings::default();
    let spec = &crd["spec"];
    let path = Path::Text("spec");
    check_names(crd, &mut findings);
    check_approval(crd, &mut findings);
    if spec["preserveUnknownFields"] == true {
        let message = "true is not allowed: set x-kubernetes-preserve-unknown-fields in the schema";
        findings.push(&path.field("preserveUnknownFields"), Problem::Invalid, message);
    }
    check_conversion(spec, &path, &mut findings);
    check_versions(spec, &path, &mut findings);
    check_stored_versions(crd, &mut findings);
    findings.into_vec()
}

/// What is wrong with the rules in the schemas. Asked when a definition is written, and not of what is stored:
/// objects of a kind whose rules another release has let through can still be read.
pub fn validate_rules(crd: &Value) -> Vec<Invalid> {
    let mut findings = Findings::default();
    let path = Path::Text("spec.versions");
    for (index, version) in list(&crd["spec"]["versions"]).iter().enumerate() {
        let path = path.index(index);
        let path = path.field("schema");
        let path = path.field("openAPIV3Schema");
        let Ok(compiled) = Schema::compile(&version["schema"]["openAPIV3Schema"]) else { continue };
        findings.extend(Expressions::compile(&compiled, &path).err().unwrap_or_default());
    }
    findings.into_vec()
}

/// What may not change while the kind is served: objects are stored under it.
pub fn validate_update(old: &Value, new: &Value) -> Vec<Invalid> {
    let mut findings = Findings::default();
    let established = list(&old["status"]["conditions"])
        .iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    if !established {
        return Vec::new();
    }
    for field in ["/spec/group", "/spec/scope", "/spec/names/kind", "/spec/names/plural"] {
        let (before, after) = (old.pointer(field), new.pointer(field));
        if before != after {
            let before = before.and_then(Value::as_str).unwrap_or_default();
            let field = field.trim_start_matches('/').replace('/', ".");
            let message =
                format!("cannot change from {before:?}: delete the definition and make it anew");
            findings.push(&Path::Text(&field), Problem::Invalid, message);
        }
    }
    findings.into_vec()
}

fn check_names(crd: &Value, findings: &mut Findings) {
    let spec = &crd["spec"];
    let (group, wanted) = (text(spec, "group"), &spec["names"]);
    let path = Path::Text("spec.names");
    names::check(group, &names::GROUP, &Path::Text("spec.group"), findings);
    for name in ["plural", "singular"] {
        names::check(text(wanted, name), &names::LABEL, &path.field(name), findings);
    }
    for name in ["kind", "listKind"] {
        names::check(text(wanted, name), &names::KIND, &path.field(name), findings);
    }
    for name in ["shortNames", "categories"] {
        for (index, entry) in list(&wanted[name]).iter().enumerate() {
            let entry = entry.as_str().unwrap_or_default();
            names::check(entry, &names::LABEL, &path.field(name).index(index), findings);
        }
    }
    if text(wanted, "kind") == text(wanted, "listKind") {
        let message = "the kind of a list cannot be the kind itself";
        findings.push(&path.field("listKind"), Problem::Invalid, message);
    }
    let name = text(&crd["metadata"], "name");
    let expected = format!("{}.{group}", text(wanted, "plural"));
    if name != expected {
        let message = format!("{name:?} is not the plural and the group, which are {expected:?}");
        findings.push(&Path::Text("metadata.name"), Problem::Invalid, message);
    }
}

/// Groups under the domains of Kubernetes are promised to its own reviews.
fn check_approval(crd: &Value, findings: &mut Findings) {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    let group = text(&crd["spec"], "group");
    let reserved = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    if !reserved {
        return;
    }
    let metadata = Path::Text("metadata");
    let annotations = metadata.field("annotations");
    let path = annotations.key(ANNOTATION);
    match text(&crd["metadata"]["annotations"], ANNOTATION) {
        "" => {
            let message = format!(
                "the group {group:?} is reserved: give the address of its review, or a text that \
                 begins with \"unapproved\""
            );
            findings.push(&path, Problem::Required, message);
        }
        approval if approval.starts_with("unapproved") || approval.contains("://") => (),
        approval => {
            let message = format!(
                "{approval:?} is neither an address nor a text that begins with \"unapproved\""
            );
            findings.push(&path, Problem::Invalid, message);
        }
    }
}

fn check_conversion(spec: &Value, path: &Path<'_>, findings: &mut Findings) {
    match spec["conversion"]["strategy"].as_str() {
        None | Some("" | "None") => (),
        Some(other) => {
            let message =
                format!("{other:?} is not supported here: the only way of conversion is \"None\"");
            let conversion = path.field("conversion");
            findings.push(&conversion.field("strategy"), Problem::NotSupported, message);
        }
    }
}

fn check_versions(spec: &Value, path: &Path<'_>, findings: &mut Findings) {
    let path = path.field("versions");
    let versions = list(&spec["versions"]);
    if versions.len() > VERSIONS_MAX {
        let message = format!("has {} versions, at most {VERSIONS_MAX} allowed", versions.len());
        findings.push(&path, Problem::TooMany, message);
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        let name = text(version, "name");
        names::check(name, &names::LABEL, &path.field("name"), findings);
        if !seen.insert(name) {
            let message = format!("{name:?} is the name of an earlier version too");
            findings.push(&path.field("name"), Problem::Duplicate, message);
        }
        check_version(version, &path, findings);
    }
    match versions.iter().filter(|version| version["storage"] == true).count() {
        1 => (),
        0 => findings.push(&path, Problem::Invalid, "one version must have storage: true"),
        more => {
            let message = format!("{more} versions have storage: true, exactly one must");
            findings.push(&path, Problem::Invalid, message);
        }
    }
}

fn check_version(version: &Value, path: &Path<'_>, findings: &mut Findings) {
    let schema_path = path.field("schema");
    let schema_path = schema_path.field("openAPIV3Schema");
    let schema = &version["schema"]["openAPIV3Schema"];
    if schema.is_null() {
        let message = "a schema is required for each version";
        findings.push(&schema_path, Problem::Required, message);
        return;
    }
    let compiled = match Schema::compile_at(schema, &schema_path) {
        Ok(compiled) => compiled,
        Err(wrong) => return findings.extend(wrong),
    };
    check_root(&compiled, &schema_path, findings);
    check_columns(version, path, findings);
    check_scale(version, path, findings);
    check_selectable(version, &compiled, path, findings);
}

/// The three fields that the server fills in may be mentioned, but hardly restricted.
fn check_root(schema: &Schema, path: &Path<'_>, findings: &mut Findings) {
    if schema.type_ != Some(Type::Object) {
        findings.push(&path.field("type"), Problem::Invalid, "the whole object is of type object");
    }
    if !matches!(schema.additional, Additional::Nothing) {
        let message = "the whole object has named properties: give them, or set \
                       x-kubernetes-preserve-unknown-fields";
        findings.push(&path.field("additionalProperties"), Problem::Forbidden, message);
    }
    let properties = path.field("properties");
    for name in ["apiVersion", "kind"] {
        let other = schema.properties.get(name).filter(|p| p.type_ != Some(Type::String));
        if other.is_some() {
            let property = properties.key(name);
            findings.push(&property.field("type"), Problem::Invalid, "the type is string");
        }
    }
    let Some(metadata) = schema.properties.get("metadata") else { return };
    let path = properties.key("metadata");
    if metadata.type_ != Some(Type::Object) {
        findings.push(&path.field("type"), Problem::Invalid, "the type is object");
    }
    let properties = path.field("properties");
    for name in metadata.properties.keys() {
        if !METADATA_RESTRICTED.contains(&name.as_str()) {
            let message = "not allowed: of the metadata only name and generateName may be \
                           restricted";
            findings.push(&properties.key(name), Problem::Forbidden, message);
        }
    }
}

fn check_columns(version: &Value, path: &Path<'_>, findings: &mut Findings) {
    let path = path.field("additionalPrinterColumns");
    let columns = list(&version["additionalPrinterColumns"]);
    if columns.len() > COLUMNS_MAX {
        let message = format!("has {} columns, at most {COLUMNS_MAX} allowed", columns.len());
        findings.push(&path, Problem::TooMany, message);
    }
    for (index, column) in columns.iter().take(COLUMNS_MAX).enumerate() {
        let found = text(column, "jsonPath");
        if let Some(problem) = path_problem(found) {
            let path = path.index(index);
            findings.push(&path.field("jsonPath"), Problem::Invalid, problem);
        }
    }
}

fn check_scale(version: &Value, path: &Path<'_>, findings: &mut Findings) {
    let scale = &version["subresources"]["scale"];
    if !scale.is_object() {
        return;
    }
    let path = path.field("subresources");
    let path = path.field("scale");
    let rows: [(&str, &[&str]); 3] = [
        ("specReplicasPath", &[".spec."]),
        ("statusReplicasPath", &[".status."]),
        ("labelSelectorPath", &[".spec.", ".status."]),
    ];
    for (name, beginnings) in rows {
        let found = text(scale, name);
        let absent = found.is_empty() && name == "labelSelectorPath";
        let fits = fields(found).is_some() && beginnings.iter().any(|b| found.starts_with(b));
        if !fits && !absent {
            let message = format!(
                "{found:?} is not a path of plain fields that begins with {}",
                beginnings.join(" or ")
            );
            findings.push(&path.field(name), Problem::Invalid, message);
        }
    }
}

fn check_selectable(version: &Value, schema: &Schema, path: &Path<'_>, findings: &mut Findings) {
    let path = path.field("selectableFields");
    let mut seen = BTreeSet::new();
    for (index, field) in list(&version["selectableFields"]).iter().enumerate() {
        let path = path.index(index);
        let path = path.field("jsonPath");
        let found = text(field, "jsonPath");
        if !seen.insert(found) {
            let message = format!("{found:?} is there twice");
            findings.push(&path, Problem::Duplicate, message);
        }
        let Some(fields) = fields(found) else {
            let message = format!("{found:?} is not a path of plain fields such as .spec.colour");
            findings.push(&path, Problem::Invalid, message);
            continue;
        };
        if fields[0] == "metadata" {
            let message = "fields of the metadata cannot be added: the name and the namespace \
                           are selectable anyway";
            findings.push(&path, Problem::Invalid, message);
            continue;
        }
        let target = fields.iter().try_fold(schema, |schema, name| schema.properties.get(*name));
        let scalar = target.is_some_and(|target| {
            matches!(target.type_, Some(Type::String | Type::Integer | Type::Boolean))
        });
        if !scalar {
            let message =
                format!("{found:?} is not a string, an integer or a boolean of the schema");
            findings.push(&path, Problem::Invalid, message);
        }
    }
}

/// A version that objects are stored in cannot be taken away from under them.
fn check_stored_versions(crd: &Value, findings: &mut Findings) {
    let versions = list(&crd["spec"]["versions"]);
    for (index, stored) in list(&crd["status"]["storedVersions"]).iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *stored) {
            let name = stored.as_str().unwrap_or_default();
            let message =
                format!("{name:?} is not a version of the spec, yet objects may be stored in it");
            let path = Path::Text("status.storedVersions");
            findings.push(&path.index(index), Problem::Invalid, message);
        }
    }
}

/// Why a column's path cannot be one. The forms of the core kinds' columns begin without a dot and
/// are not for users.
fn path_problem(path: &str) -> Option<String> {
    if !path.starts_with(['.', '[']) {
        return Some(format!("{path:?} must begin with a dot, such as .spec.replicas"));
    }
    jsonpath::Path::parse(path).err().map(|error| error.to_string())
}

/// The fields of a path such as `.spec.colour`; none when it is anything more than that.
fn fields(path: &str) -> Option<Vec<&str>> {
    let fields: Vec<&str> = path.strip_prefix('.')?.split('.').collect();
    let plain = |field: &&str| {
        !field.is_empty() && field.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    fields.iter().all(plain).then_some(fields)
}
