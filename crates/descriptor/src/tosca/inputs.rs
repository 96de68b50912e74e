//! The inputs of a template and the functions that stand for values: `{ get_input: NAME }`,
//! `{ concat: [a, b] }`. Whoever reads a property asks [`Inputs`] for it.

use std::collections::BTreeMap;

use crate::fields::{Field, Fields, Rest};
use crate::path::shown;
use crate::reader::Reader;

/// What else an input says is for whoever fills it in.
const ASIDE: &[&str] = &[
    "constraints",
    "description",
    "entry_schema",
    "key_schema",
    "metadata",
    "schema",
    "status",
    "type",
];

const KNOWN: &[&str] = &["default", "required", "type", "description", "constraints"];

/// Functions whose value is known only when everything runs.
const UNKNOWN_YET: &[&str] = &[
    "get_attribute",
    "get_artifact",
    "get_nodes_of_type",
    "get_operation_output",
    "get_property",
    "get_secret",
    "token",
];

/// The declared inputs.
#[derive(Debug, Default)]
pub(crate) struct Inputs<'a> {
    declared: BTreeMap<&'a str, Input<'a>>,
}

#[derive(Debug)]
struct Input<'a> {
    default: Option<Field<'a>>,
    required: bool,
}

/// What a value is.
enum Function<'a> {
    /// No function: the value itself.
    Plain,
    Input(Field<'a>),
    Concat(Field<'a>),
    UnknownYet(&'a str),
}

impl<'a> Inputs<'a> {
    pub(super) fn read(field: Option<Field<'a>>, reader: &mut Reader<'_>) -> Inputs<'a> {
        let mut inputs = Inputs::default();
        let entries = field.and_then(|field| field.fields(reader)).map(Fields::entries);
        for (key, field) in entries.unwrap_or_default() {
            let mut input = Input { default: None, required: true };
            if !field.node.is_null()
                && let Some(mut fields) = field.fields(reader)
            {
                // `value` is how a template says it that was filled in.
                input.default = fields.take_any(&["value", "default"]);
                if let Some(required) = fields.take("required") {
                    input.required = required.boolean(reader).unwrap_or(true);
                }
                for key in ASIDE {
                    let _ = fields.take_even_null(key);
                }
                fields.finish(Rest::Foreign { known: KNOWN, dropped: &[] }, reader);
            }
            field.changed(reader, "its value is filled in where it is asked for");
            inputs.declared.insert(&key.text, input);
        }
        inputs
    }

    /// The value, or the one that an input stands for. Nothing, and an error, if there is none.
    pub(crate) fn value(&self, field: &Field<'a>, reader: &mut Reader<'_>) -> Option<Field<'a>> {
        match function(field) {
            Function::Plain => Some(field.clone()),
            Function::Input(name) => self.input(field, &name, reader),
            Function::Concat(_) => {
                field
                    .error(reader, "unsupported-function", "\"concat\" makes a text")
                    .expecting("a value that is no text, or { get_input: NAME }");
                None
            }
            Function::UnknownYet(name) => unknown_yet(field, name, reader),
        }
    }

    /// A text, put together where it must be.
    pub(crate) fn text(&self, field: &Field<'a>, reader: &mut Reader<'_>) -> Option<String> {
        match function(field) {
            Function::Plain => field.text(reader),
            Function::Input(name) => self.input(field, &name, reader)?.text(reader),
            Function::Concat(parts) => {
                let parts = parts.list(reader);
                parts.iter().map(|part| self.text(part, reader)).collect()
            }
            Function::UnknownYet(name) => {
                unknown_yet(field, name, reader)?;
                None
            }
        }
    }

    /// The value of an input, at the place where it is used.
    fn input(
        &self,
        place: &Field<'a>,
        name: &Field<'a>,
        reader: &mut Reader<'_>,
    ) -> Option<Field<'a>> {
        if name.node.is_null() {
            place.dropped(reader, "it names no input");
            return None;
        }
        let wanted = name.str(reader)?;
        let span = name.node.span;
        match self.declared.get(wanted) {
            Some(Input { default: Some(default), .. }) => {
                let (path, key_span) = (place.path.clone(), place.key_span);
                let value = Field { node: default.node, path, key_span };
                value.may_copy_node(default.node, reader).then_some(value)
            }
            Some(Input { default: None, required: false }) => {
                let why = format!("the input {} is not required and has no value", shown(wanted));
                place.dropped(reader, &why);
                None
            }
            Some(Input { default: None, required: true }) => {
                let message = format!("the input {} has no value", shown(wanted));
                let diagnostic = reader.error("missing-input", &place.path, span, message);
                diagnostic.expecting(format!("a \"default\" for {wanted} under inputs"));
                None
            }
            None => {
                let message = format!("there is no input {}", shown(wanted));
                let names = self.declared.keys().copied();
                let diagnostic = reader.error("missing-input", &place.path, span, message);
                diagnostic.expecting(format!("{wanted} with a \"default\" under inputs"));
                diagnostic.mended_by_nearest(span, wanted, names);
                None
            }
        }
    }
}

fn function<'a>(field: &Field<'a>) -> Function<'a> {
    let Some([(key, node)]) = field.node.as_map() else { return Function::Plain };
    let argument = Field { node, path: field.path.key(&key.text), key_span: key.span };
    match key.text.as_str() {
        "get_input" => Function::Input(match node.as_list() {
            Some([only]) => Field { node: only, ..argument },
            Some(_) | None => argument,
        }),
        "concat" => Function::Concat(argument),
        name => match UNKNOWN_YET.iter().find(|function| **function == name) {
            Some(_) => Function::UnknownYet(&key.text),
            None => Function::Plain,
        },
    }
}

fn unknown_yet<'a>(field: &Field<'a>, name: &str, reader: &mut Reader<'_>) -> Option<Field<'a>> {
    let message = format!("the value of {name:?} is not known before everything runs");
    field
        .error(reader, "unsupported-function", message)
        .expecting("a value, or { get_input: NAME }");
    None
}
