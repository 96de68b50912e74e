//! What a custom policy watches: its expression, the variables in it, and how often it is looked at.

use std::collections::BTreeMap;

use tombolo_model::policy::{Check, Properties, Thresholds};

use crate::fields::{Field, Rest};
use crate::reader::Reader;

pub(super) fn read_spec(
    field: &Field<'_>,
    condition: &mut Check,
    place: &str,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = field.fields(reader) else { return };
    if let Some(field) = fields.take("expr") {
        condition.expr = field.text(reader);
        field.origin(reader, format!("{place}.condition.expr"));
    }
    if let Some(field) = fields.take("violatedIf") {
        condition.violated_if = field.text(reader);
        field.origin(reader, format!("{place}.condition.violatedIf"));
    }
    if let Some(field) = fields.take("thresholds")
        && let Some(mut fields) = field.fields(reader)
    {
        let mut number = |key| fields.take(key).and_then(|field| field.number(reader));
        let thresholds = Thresholds { warning: number("warning"), critical: number("critical") };
        condition.thresholds = Some(thresholds);
        fields.finish(Rest::Foreign { known: &["warning", "critical"], dropped: &[] }, reader);
    }
    let known = &["expr", "violatedIf", "thresholds"];
    fields.finish(Rest::Foreign { known, dropped: &[] }, reader);
}

pub(super) fn read_variables(
    field: &Field<'_>,
    reader: &mut Reader<'_>,
) -> BTreeMap<String, serde_json::Value> {
    let mut variables = BTreeMap::new();
    let Some(fields) = field.fields(reader) else { return variables };
    for (key, field) in fields.entries() {
        match field.node.is_scalar() && !field.node.is_null() {
            true => {
                variables.insert(key.text.clone(), field.node.to_json());
            }
            false => {
                field.wrong_kind(reader, "a number or a text");
            }
        }
    }
    variables
}

pub(super) fn read_properties(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Properties> {
    let mut fields = field.fields(reader)?;
    let mut properties = Properties::default();
    if let Some(field) = fields.take_any(&["oneoff", "oneOff"]) {
        properties.one_off = field.boolean(reader).unwrap_or_default();
    }
    if let Some(field) = fields.take("interval") {
        properties.interval = field.duration_in(reader, "s");
    }
    if let Some(field) = fields.take("pendingInterval") {
        properties.pending_interval = field.duration_in(reader, "s");
    }
    let known = &["oneoff", "interval", "pendingInterval"];
    fields.finish(Rest::Foreign { known, dropped: &[] }, reader);
    Some(properties)
}
