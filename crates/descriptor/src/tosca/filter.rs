//! Filters of nodes and what they mean as needs: operators, amounts, capabilities. Called by the
//! readers of CHARITY's blueprints and ACCORDION's models.

use tombolo_model::needs::Needs;
use tombolo_model::quantity::Error;
use tombolo_model::{Bytes, Cpu, names, suggest};

use super::{Inputs, blocks};
use crate::fields::{Field, Fields, Rest};
use crate::path::shown;
use crate::reader::Reader;

/// How a value of a filter is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    /// No operator is written.
    Plain,
    Equal,
    GreaterThan,
    GreaterOrEqual,
    LessThan,
    LessOrEqual,
    InRange,
    ValidValues,
    /// About the form of a text.
    Form,
}

const OPERATORS: &[(&str, Operator)] = &[
    ("equal", Operator::Equal),
    ("greater_than", Operator::GreaterThan),
    ("greater_or_equal", Operator::GreaterOrEqual),
    ("less_than", Operator::LessThan),
    ("less_or_equal", Operator::LessOrEqual),
    ("in_range", Operator::InRange),
    ("valid_values", Operator::ValidValues),
    ("length", Operator::Form),
    ("min_length", Operator::Form),
    ("max_length", Operator::Form),
    ("pattern", Operator::Form),
    ("schema", Operator::Form),
];

const CAPABILITIES: &[&str] = &["host", "os", "gpu", "deployment", "datacenter"];
const FORM: &str = "the form of a value is not compared";

/// Reads `capabilities`, in a filter or plain, into needs.
pub(crate) fn capabilities<'a>(
    field: &Field<'a>,
    inputs: &Inputs<'a>,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) {
    for mut block in blocks(field, reader) {
        for name in CAPABILITIES {
            let Some(capability) = block.take(name) else { continue };
            for fields in properties(&capability, reader) {
                match *name {
                    "host" => host(fields, inputs, needs, reader),
                    "os" => os(fields, inputs, needs, reader),
                    "gpu" => gpu(fields, inputs, needs, reader),
                    "deployment" | "datacenter" => site(name, fields, inputs, needs, reader),
                    _ => fields.finish(Rest::Dropped("not known"), reader),
                }
            }
        }
        let dropped = &[
            ("endpoint", "addresses are given when it runs"),
            ("scalable", "how many instances there are is said by the component"),
        ];
        block.finish(Rest::Foreign { known: CAPABILITIES, dropped }, reader);
    }
}

/// The `properties` of a capability.
pub(crate) fn properties<'a>(field: &Field<'a>, reader: &mut Reader<'_>) -> Vec<Fields<'a>> {
    let Some(mut fields) = field.fields(reader) else { return Vec::new() };
    let properties = fields.take("properties");
    fields.finish(Rest::Foreign { known: &["properties"], dropped: &[] }, reader);
    properties.map(|properties| blocks(&properties, reader)).unwrap_or_default()
}

fn host<'a>(
    mut fields: Fields<'a>,
    inputs: &Inputs<'a>,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) {
    if let Some(field) = fields.take("num_cpus") {
        needs.cpu = amount(&field, inputs, Cpu::ZERO, reader).or(needs.cpu);
    }
    if let Some(field) = fields.take("mem_size") {
        needs.memory = amount(&field, inputs, Bytes::ZERO, reader).or(needs.memory);
    }
    if let Some(field) = fields.take("disk_size") {
        needs.storage = amount(&field, inputs, Bytes::ZERO, reader).or(needs.storage);
    }
    let known = &["num_cpus", "mem_size", "disk_size"];
    let dropped = &[("cpu_frequency", "the clock of a processor cannot be asked for")];
    fields.finish(Rest::Foreign { known, dropped }, reader);
}

fn os<'a>(mut fields: Fields<'a>, inputs: &Inputs<'a>, needs: &mut Needs, reader: &mut Reader<'_>) {
    if let Some(field) = fields.take("architecture") {
        for word in words(&field, inputs, reader) {
            needs.arch.extend(word.arch(reader).filter(|arch| !needs.arch.contains(arch)));
        }
    }
    if let Some(field) = fields.take("type") {
        for word in words(&field, inputs, reader) {
            if !word.node.as_str().is_some_and(|name| name.eq_ignore_ascii_case("linux")) {
                word.dropped(reader, "nodes run Linux");
            }
        }
    }
    let dropped = &[
        ("distribution", "a container brings its own"),
        ("version", "a container brings its own"),
    ];
    fields.finish(Rest::Foreign { known: &["architecture", "type"], dropped }, reader);
}

fn gpu<'a>(
    mut fields: Fields<'a>,
    inputs: &Inputs<'a>,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) {
    needs.gpu = Some(1);
    if let Some(field) = fields.take("units") {
        let least = least(&field, inputs, reader);
        needs.gpu = least.and_then(|least| least.count(reader, 1024)).or(needs.gpu);
    }
    if let Some(field) = fields.take("model") {
        for model in words(&field, inputs, reader) {
            gpu_model(&model, needs, reader);
        }
    }
    let dropped = &[
        ("brand", "any graphics processor will do"),
        ("dedicated", "whether it is a part of the processor cannot be asked for"),
    ];
    fields.finish(Rest::Foreign { known: &["units", "model"], dropped }, reader);
}

/// A model that is written like a device of Kubernetes is one; any other is only words.
pub(crate) fn gpu_model(field: &Field<'_>, needs: &mut Needs, reader: &mut Reader<'_>) {
    let Some(model) = field.str(reader) else { return };
    match model.contains('/') && names::qualified(model).is_ok() {
        true => needs.devices.push(model.to_owned()),
        false => field.dropped(reader, "a model by its trade name cannot be asked for"),
    }
}

/// `deployment: {cluster, datacenter}`, or the older `datacenter: {name}`.
fn site<'a>(
    capability: &str,
    mut fields: Fields<'a>,
    inputs: &Inputs<'a>,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) {
    if let Some(field) = fields.take("cluster") {
        field.assumed(reader, "a cluster is the site of the same name");
        for word in words(&field, inputs, reader) {
            needs.sites.extend(word.object_name(reader));
        }
    }
    let key = if capability == "datacenter" { "name" } else { "datacenter" };
    if let Some(field) = fields.take(key) {
        field.assumed(reader, "a datacenter is a region that sites name as theirs");
        for word in words(&field, inputs, reader) {
            needs.regions.extend(word.text(reader));
        }
    }
    let dropped = &[("namespace", "the namespace is the App's")];
    fields.finish(Rest::Foreign { known: &["cluster", key], dropped }, reader);
}

/// The least amount that will do; nothing when nothing is asked for.
pub(crate) fn amount<'a, Q: std::str::FromStr<Err = Error> + PartialEq>(
    field: &Field<'a>,
    inputs: &Inputs<'a>,
    zero: Q,
    reader: &mut Reader<'_>,
) -> Option<Q> {
    let least = least(field, inputs, reader)?;
    let amount: Q = least.quantity(reader)?;
    if amount == zero {
        field.dropped(reader, "it asks for nothing");
        return None;
    }
    Some(amount)
}

/// One of the two bounds of a value.
struct Bound {
    /// The operators that set it.
    set_by: [Operator; 2],
    /// Its place in a range.
    index: usize,
    exactly: &'static str,
    /// What is told about the other bound.
    other: &'static str,
    words: &'static str,
}

const LEAST: Bound = Bound {
    set_by: [Operator::GreaterThan, Operator::GreaterOrEqual],
    index: 0,
    exactly: "exactly this much is read as at least this much",
    other: "a node may well have more than is needed",
    words: "an amount has a lower bound only",
};
const MOST: Bound = Bound {
    set_by: [Operator::LessThan, Operator::LessOrEqual],
    index: 1,
    exactly: "exactly this much is read as at most this much",
    other: "less will do as well",
    words: "it has an upper bound only",
};

/// The lower bound of a value.
pub(crate) fn least<'a>(
    field: &Field<'a>,
    inputs: &Inputs<'a>,
    reader: &mut Reader<'_>,
) -> Option<Field<'a>> {
    LEAST.of(field, inputs, reader)
}

/// The upper bound of a value.
pub(crate) fn most<'a>(
    field: &Field<'a>,
    inputs: &Inputs<'a>,
    reader: &mut Reader<'_>,
) -> Option<Field<'a>> {
    MOST.of(field, inputs, reader)
}

impl Bound {
    fn of<'a>(
        &self,
        field: &Field<'a>,
        inputs: &Inputs<'a>,
        reader: &mut Reader<'_>,
    ) -> Option<Field<'a>> {
        let mut found = None;
        for (operator, value) in conditions(field, inputs, reader) {
            match operator {
                Operator::Plain => found = Some(value),
                Operator::Equal => {
                    value.changed(reader, self.exactly);
                    found = Some(value);
                }
                Operator::InRange => found = bound(&value, self.index, reader),
                Operator::GreaterThan
                | Operator::GreaterOrEqual
                | Operator::LessThan
                | Operator::LessOrEqual => match self.set_by.contains(&operator) {
                    true => found = Some(value),
                    false => value.dropped(reader, self.other),
                },
                Operator::ValidValues => value.dropped(reader, self.words),
                Operator::Form => value.dropped(reader, FORM),
            }
        }
        found
    }
}

/// The values that will do.
pub(crate) fn words<'a>(
    field: &Field<'a>,
    inputs: &Inputs<'a>,
    reader: &mut Reader<'_>,
) -> Vec<Field<'a>> {
    let mut found = Vec::new();
    for (operator, value) in conditions(field, inputs, reader) {
        match operator {
            Operator::Plain | Operator::Equal => found.push(value),
            Operator::ValidValues => found.extend(value.list_or_one(reader)),
            Operator::GreaterThan
            | Operator::GreaterOrEqual
            | Operator::LessThan
            | Operator::LessOrEqual
            | Operator::InRange => value.dropped(reader, "words cannot be compared by size"),
            Operator::Form => value.dropped(reader, FORM),
        }
    }
    found
}

/// One end of `in_range: [low, high]`.
fn bound<'a>(field: &Field<'a>, end: usize, reader: &mut Reader<'_>) -> Option<Field<'a>> {
    let ends = field.list(reader);
    if ends.len() != 2 {
        field.error(reader, "invalid-value", "a range has two ends").expecting("[low, high]");
        return None;
    }
    if let Some(other) = ends.get(1 - end) {
        other.dropped(reader, "only one end of the range counts");
    }
    ends.into_iter().nth(end).filter(|value| value.node.as_str() != Some("UNBOUNDED"))
}

/// `- greater_than: 2`, `{greater_than: 2}`, or just `2`.
fn conditions<'a>(
    field: &Field<'a>,
    inputs: &Inputs<'a>,
    reader: &mut Reader<'_>,
) -> Vec<(Operator, Field<'a>)> {
    let Some(field) = inputs.value(field, reader) else { return Vec::new() };
    let mut found = Vec::new();
    let items = match field.node.as_list() {
        Some(_) => field.list(reader),
        None => vec![field],
    };
    for item in items {
        if item.node.is_scalar() {
            found.push((Operator::Plain, item));
            continue;
        }
        for (key, value) in item.fields(reader).map(Fields::entries).unwrap_or_default() {
            let operator = OPERATORS.iter().find(|(name, _)| *name == key.text);
            match operator {
                Some((_, operator)) => {
                    found.extend(inputs.value(&value, reader).map(|value| (*operator, value)));
                }
                None => {
                    let names = OPERATORS.iter().map(|(name, _)| *name);
                    let message = format!("{} is not an operator", shown(&key.text));
                    let diagnostic =
                        reader.error("unknown-operator", &value.path, key.span, message);
                    diagnostic.expecting(suggest::one_of(names.clone()));
                    diagnostic.mended_by_nearest(key.span, &key.text, names);
                }
            }
        }
    }
    found
}
