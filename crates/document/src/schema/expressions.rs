//! `x-kubernetes-validations`: the rules of a schema, compiled when a definition is written and evaluated when an
//! object is. They come after everything else has been found right: a rule may count on the shape of its value.
//!
//! [`Expressions::compile`] follows the schema and keeps the nodes that lead to a rule; [`Expressions::check`]
//! follows those through an object, with the object as it was beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tombolo_cel::{
    self as cel, Budget, CompileError, EvalError, OBJECT_COST_MAX, Program, Subject,
};
use tombolo_model::{Invalid, Problem};

use super::compare::identity;
use super::field_path::normalised;
use super::findings::Findings;
use super::{Additional, ListKind, MapKind, Path, Schema, Type};

/// Each is a tree in memory and costs time whenever an object is written.
const RULES_MAX: usize = 1000;
/// A message is for a person.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
/// More of a rule does not help who has broken it.
const RULE_CHARS_SHOWN_MAX: usize = 300;

const KEYWORD: &str = "x-kubernetes-validations";

/// The rules of a schema, where they apply.
#[derive(Debug)]
pub struct Expressions {
    root: Node,
}

#[derive(Debug, Default)]
struct Node {
    rules: Vec<Rule>,
    /// What values of the node are called in messages.
    type_name: &'static str,
    properties: BTreeMap<String, Node>,
    additional: Option<Box<Node>>,
    items: Option<Box<Node>>,
    /// By which fields an item finds the one that it was; none where items have nothing of their own.
    keys: Option<Vec<String>>,
    /// Whether the object is replaced as a whole, so that its fields were nothing before.
    is_atomic: bool,
}

#[derive(Debug)]
struct Rule {
    program: Program,
    text: String,
    message: Option<String>,
    says: Option<Program>,
    problem: Problem,
    /// The field of the node that is meant, as it follows the path of the node.
    field: String,
    old_is_optional: bool,
}

/// No further rule is looked at.
struct Stop;

impl Expressions {
    /// `None` of a schema without rules. What is wrong with them is told at their places under `path`.
    pub fn compile(schema: &Schema, path: &Path<'_>) -> Result<Option<Expressions>, Vec<Invalid>> {
        if !schema.has_expressions() {
            return Ok(None);
        }
        let mut compiler = Compiler { findings: Findings::default(), rules: 0 };
        let root = compiler.node(schema, Place::Root, None, path);
        match compiler.findings.is_empty() {
            true => Ok(root.map(|root| Expressions { root })),
            false => Err(compiler.findings.into_vec()),
        }
    }

    /// Which rules an object breaks. `old` is the object as it was, in the same version: what has not changed
    /// since is not held against whoever changes something else.
    pub fn check(&self, value: &Value, old: Option<&Value>) -> Vec<Invalid> {
        let mut walk = Walk { budget: Budget::new(OBJECT_COST_MAX), findings: Findings::default() };
        // What was found until then stands.
        let _ = walk.node(&self.root, Changed { value, old, is_settled: false }, &Path::ROOT);
        walk.findings.into_vec()
    }
}

/// Where a node of the schema stands, as far as it matters to rules.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// `apiVersion`, `kind` and the name are known, whether the schema names them or not.
    Root,
    Inside,
}

struct Compiler {
    findings: Findings,
    rules: usize,
}

impl Compiler {
    /// `unrelated` is the path from which on a value does not know what it was.
    fn node(
        &mut self,
        schema: &Schema,
        place: Place,
        unrelated: Option<&str>,
        path: &Path<'_>,
    ) -> Option<Node> {
        if !schema.has_expressions() || self.findings.is_full() {
            return None;
        }
        let place = if schema.embedded_resource { Place::Root } else { place };
        // Rules about what has no type are passed over, as Kubernetes does.
        let type_ = declared(schema, place)?;
        let mut node = Node {
            rules: self.rules(schema, &type_, unrelated, path),
            type_name: schema.type_.map_or("", Type::name),
            is_atomic: schema.map_type == MapKind::Atomic,
            keys: match &schema.list {
                ListKind::Map(keys) => Some(keys.clone()),
                ListKind::Atomic | ListKind::Set => None,
            },
            ..Node::default()
        };
        let here = path.to_string();
        let below = unrelated.or(node.is_atomic.then_some(here.as_str()));
        let properties = path.field("properties");
        for (name, property) in &schema.properties {
            let found = self.node(property, Place::Inside, below, &properties.key(name));
            node.properties.extend(found.map(|found| (name.clone(), found)));
        }
        if let Additional::Each(each) = &schema.additional {
            let path = path.field("additionalProperties");
            node.additional = self.node(each, Place::Inside, below, &path).map(Box::new);
        }
        if let Some(items) = &schema.items {
            let below = unrelated.or(node.keys.is_none().then_some(here.as_str()));
            let path = path.field("items");
            node.items = self.node(items, Place::Inside, below, &path).map(Box::new);
        }
        Some(node)
    }

    fn rules(
        &mut self,
        schema: &Schema,
        type_: &cel::Type,
        unrelated: Option<&str>,
        path: &Path<'_>,
    ) -> Vec<Rule> {
        self.rules += schema.expressions.len();
        let path = path.field(KEYWORD);
        if self.rules > RULES_MAX {
            let message = format!("the schema has more than {RULES_MAX} rules");
            self.findings.push(&path, Problem::TooMany, message);
            return Vec::new();
        }
        let written = schema.expressions.iter().enumerate();
        let compiled = written.filter_map(|(index, rule)| {
            self.rule(schema, type_, rule, unrelated, &path.index(index))
        });
        compiled.collect()
    }

    fn rule(
        &mut self,
        schema: &Schema,
        type_: &cel::Type,
        rule: &Value,
        unrelated: Option<&str>,
        path: &Path<'_>,
    ) -> Option<Rule> {
        self.check_texts(rule, path)?;
        let text = word(rule, "rule").trim();
        let old_is_optional = rule["optionalOldSelf"] == true;
        let old = if old_is_optional { cel::Type::optional(type_.clone()) } else { type_.clone() };
        let compiled = Program::compile_to(text, type_.clone(), old.clone(), &cel::Type::Bool);
        let program = match compiled {
            Ok(program) => program,
            Err(error) => {
                let message = match error {
                    CompileError::Wrong(_) => format!("{}: {error}", shown(text)),
                    CompileError::Result(_) => format!("{}: cel expression {error}", shown(text)),
                };
                self.findings.push(&path.field("rule"), Problem::Invalid, message);
                return None;
            }
        };
        if program.uses_old_self()
            && let Some(place) = unrelated
        {
            let message = format!(
                "{}: oldSelf cannot be used on the uncorrelatable portion of the schema within {place}",
                shown(text)
            );
            self.findings.push(&path.field("rule"), Problem::Invalid, message);
        }
        if !program.uses_old_self() && rule.get("optionalOldSelf").is_some_and(|is| !is.is_null()) {
            let message =
                format!("{old_is_optional}: may not be set if oldSelf is not used in rule");
            self.findings.push(&path.field("optionalOldSelf"), Problem::Invalid, message);
        }
        let says = self.message(rule, type_, &old, path);
        let field = match normalised(word(rule, "fieldPath"), schema) {
            Ok(field) => field,
            Err(why) => {
                let message =
                    format!("{:?}: fieldPath must be a valid path: {why}", word(rule, "fieldPath"));
                self.findings.push(&path.field("fieldPath"), Problem::Invalid, message);
                return None;
            }
        };
        let message = Some(word(rule, "message").trim().to_owned()).filter(|m| !m.is_empty());
        let text = text.to_owned();
        let problem = problem_of(rule).unwrap_or(Problem::Invalid);
        Some(Rule { program, text, message, says, problem, field, old_is_optional })
    }

    fn message(
        &mut self,
        rule: &Value,
        type_: &cel::Type,
        old: &cel::Type,
        path: &Path<'_>,
    ) -> Option<Program> {
        let text = word(rule, "messageExpression").trim();
        if text.is_empty() {
            return None;
        }
        match Program::compile_to(text, type_.clone(), old.clone(), &cel::Type::String) {
            Ok(program) => Some(program),
            Err(error) => {
                let message = format!("{}: messageExpression {error}", shown(text));
                self.findings.push(&path.field("messageExpression"), Problem::Invalid, message);
                None
            }
        }
    }

    /// What is wrong with a rule before it is read as an expression.
    fn check_texts(&mut self, rule: &Value, path: &Path<'_>) -> Option<()> {
        let before = self.findings.len();
        let of = |name: &str| word(rule, name);
        let is_blank = |name: &str| !of(name).is_empty() && of(name).trim().is_empty();
        let has_lines = |text: &str| text.contains(['\n', '\r']);
        let mut push = |name: &str, problem, message: String| {
            self.findings.push(&path.field(name), problem, message);
        };
        let invalid = |name: &str, message: &str| format!("{}: {message}", shown(of(name)));
        let (text, message) = (of("rule").trim(), of("message").trim());
        if text.is_empty() {
            push("rule", Problem::Required, "rule is not specified".to_owned());
        } else if is_blank("message") {
            let message = invalid("message", "message must be non-empty if specified");
            push("message", Problem::Invalid, message);
        } else if has_lines(message) {
            let message = invalid("message", "message must not contain line breaks");
            push("message", Problem::Invalid, message);
        } else if has_lines(text) && message.is_empty() {
            let message = "message must be specified if rule contains line breaks";
            push("message", Problem::Required, message.to_owned());
        }
        if is_blank("messageExpression") {
            let message = "messageExpression must be non-empty if specified";
            push("messageExpression", Problem::Required, message.to_owned());
        }
        if problem_of(rule).is_none() {
            let names: Vec<String> = REASONS.iter().map(|(name, _)| format!("{name:?}")).collect();
            let message = format!("{:?}: supported values: {}", of("reason"), names.join(", "));
            push("reason", Problem::NotSupported, message);
        }
        if is_blank("fieldPath") || has_lines(of("fieldPath")) {
            let message =
                "fieldPath must be non-empty if specified, and must not contain line breaks";
            push("fieldPath", Problem::Invalid, invalid("fieldPath", message));
        }
        (self.findings.len() == before).then_some(())
    }
}

const REASONS: &[(&str, Problem)] = &[
    ("FieldValueDuplicate", Problem::Duplicate),
    ("FieldValueForbidden", Problem::Forbidden),
    ("FieldValueInvalid", Problem::Invalid),
    ("FieldValueRequired", Problem::Required),
];

fn problem_of(rule: &Value) -> Option<Problem> {
    match word(rule, "reason") {
        "" => Some(Problem::Invalid),
        found => REASONS.iter().find(|(name, _)| *name == found).map(|(_, problem)| *problem),
    }
}

fn word<'a>(rule: &'a Value, name: &str) -> &'a str {
    rule[name].as_str().unwrap_or_default()
}

fn shown(text: &str) -> String {
    let cut: String = text.chars().take(RULE_CHARS_SHOWN_MAX).collect();
    format!("{cut:?}")
}

/// The type that rules know of what the schema describes; none of what it says nothing about.
fn declared(schema: &Schema, place: Place) -> Option<cel::Type> {
    if schema.int_or_string {
        return Some(cel::Type::Dyn);
    }
    Some(match schema.type_? {
        Type::Array => {
            let items = schema.items.as_deref()?;
            cel::Type::list(declared(items, place_of(items))?)
        }
        Type::Object => match &schema.additional {
            Additional::Each(each) => {
                cel::Type::map(cel::Type::String, declared(each, place_of(each))?)
            }
            Additional::Nothing | Additional::Anything => object(schema, place),
        },
        Type::String => match schema.rules.format.as_deref() {
            Some("byte") => cel::Type::Bytes,
            Some("date" | "date-time") => cel::Type::Timestamp,
            Some("duration") => cel::Type::Duration,
            _ => cel::Type::String,
        },
        Type::Integer => cel::Type::Int,
        Type::Number => cel::Type::Double,
        Type::Boolean => cel::Type::Bool,
    })
}

fn place_of(schema: &Schema) -> Place {
    if schema.embedded_resource { Place::Root } else { Place::Inside }
}

fn object(schema: &Schema, place: Place) -> cel::Type {
    let mut object = cel::Object::default();
    let mut add = |name: &str, type_: cel::Type| {
        let field = cel::Field { name: name.to_owned(), type_ };
        object.fields.extend(cel::escaped(name).map(|escaped| (escaped, field)));
    };
    for (name, property) in &schema.properties {
        if let Some(type_) = declared(property, place_of(property)) {
            add(name, type_);
        }
    }
    if place == Place::Root {
        let mut metadata = cel::Object::default();
        for name in ["name", "generateName"] {
            let field = cel::Field { name: name.to_owned(), type_: cel::Type::String };
            metadata.fields.insert(name.to_owned(), field);
        }
        add("apiVersion", cel::Type::String);
        add("kind", cel::Type::String);
        add("metadata", cel::Type::Object(Arc::new(metadata)));
    }
    cel::Type::Object(Arc::new(object))
}

/// A value and what it was.
#[derive(Clone, Copy)]
struct Changed<'a> {
    value: &'a Value,
    old: Option<&'a Value>,
    /// Whether something around it is as it was, and it with it.
    is_settled: bool,
}

struct Walk {
    budget: Budget,
    findings: Findings,
}

impl Walk {
    fn node(&mut self, node: &Node, changed: Changed<'_>, path: &Path<'_>) -> Result<(), Stop> {
        // Whoever wants to know of null asks around it.
        if changed.value.is_null() || self.findings.is_full() {
            return Ok(());
        }
        let old = changed.old.filter(|old| !old.is_null());
        if !node.rules.is_empty() {
            let is_settled = changed.is_settled || old == Some(changed.value);
            let changed = Changed { old, is_settled, ..changed };
            node.rules.iter().try_for_each(|rule| self.rule(node, rule, changed, path))?;
        }
        match changed.value {
            Value::Object(fields) => {
                let is_settled =
                    changed.is_settled || (node.is_atomic && old == Some(changed.value));
                for (name, value) in fields {
                    let inner = node.properties.get(name).or(node.additional.as_deref());
                    let Some(inner) = inner else { continue };
                    let old = old.filter(|_| !node.is_atomic).and_then(|old| old.get(name));
                    // Keys stand in brackets, fields after a dot.
                    let place = match node.properties.contains_key(name) {
                        true => path.field(name),
                        false => path.key(name),
                    };
                    self.node(inner, Changed { value, old, is_settled }, &place)?;
                }
            }
            Value::Array(items) => {
                if let Some(inner) = &node.items {
                    self.items(node, inner, items, Changed { old, ..changed }, path)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
        }
        Ok(())
    }

    fn items(
        &mut self,
        node: &Node,
        inner: &Node,
        items: &[Value],
        changed: Changed<'_>,
        path: &Path<'_>,
    ) -> Result<(), Stop> {
        let before = changed.old.and_then(Value::as_array).filter(|_| node.keys.is_some());
        let keys = node.keys.as_deref().unwrap_or_default();
        let before: BTreeMap<_, &Value> =
            before.into_iter().flatten().map(|item| (identity(item, keys), item)).collect();
        let is_settled =
            changed.is_settled || (node.keys.is_none() && changed.old == Some(changed.value));
        for (index, value) in items.iter().enumerate() {
            let old = match before.is_empty() {
                true => None,
                false => before.get(&identity(value, keys)).copied(),
            };
            self.node(inner, Changed { value, old, is_settled }, &path.index(index))?;
        }
        Ok(())
    }

    fn rule(
        &mut self,
        node: &Node,
        rule: &Rule,
        changed: Changed<'_>,
        path: &Path<'_>,
    ) -> Result<(), Stop> {
        let about_change = rule.program.uses_old_self();
        let nothing_before = changed.old.is_none() && !rule.old_is_optional;
        if (about_change && nothing_before) || (!about_change && changed.is_settled) {
            return Ok(());
        }
        let subject = Subject { value: changed.value, old: changed.old };
        let mut push = |path: &Path<'_>, message: String| {
            let message = format!("{:?}: {message}", node.type_name);
            self.findings.push(path, Problem::Invalid, message);
        };
        match rule.program.holds(subject, &mut self.budget) {
            Ok(true) => return Ok(()),
            Ok(false) => (),
            Err(EvalError::TooCostly) if self.budget.left() == 0 => {
                push(
                    path,
                    "validation failed due to running out of cost budget, no further \
                            validation rules will be run"
                        .to_owned(),
                );
                return Err(Stop);
            }
            Err(error @ EvalError::TooCostly) => {
                push(
                    path,
                    format!(
                        "'{error}': no further validation rules will be run due to \
                                    call cost exceeds limit for rule: {}",
                        rule.shown()
                    ),
                );
                return Err(Stop);
            }
            Err(error @ EvalError::NoOverload(_)) => {
                push(
                    path,
                    format!(
                        "'{error}': call arguments did not match a supported \
                                    operator, function or macro signature for rule: {}",
                        rule.shown()
                    ),
                );
                return Ok(());
            }
            Err(error @ EvalError::Failed(_)) => {
                push(path, format!("{error} evaluating rule: {}", rule.shown()));
                return Ok(());
            }
        }
        let said = rule.says.as_ref().and_then(|says| says.says(subject, &mut self.budget).ok());
        let said = said.map(|text| text.trim().to_owned()).filter(|text| {
            !text.is_empty() && !text.contains('\n') && text.len() <= MESSAGE_BYTES_MAX
        });
        let message = said.or_else(|| rule.message.clone());
        let message = message.unwrap_or_else(|| format!("failed rule: {}", rule.shown()));
        let message = match rule.problem {
            Problem::Invalid => format!("{:?}: {message}", node.type_name),
            Problem::Duplicate => format!("{:?}", node.type_name),
            _ => message,
        };
        let place = format!("{path}{}", rule.field);
        let place = place.strip_prefix('.').unwrap_or(&place);
        self.findings.push(&Path::Text(place), rule.problem, message);
        Ok(())
    }
}

impl Rule {
    fn shown(&self) -> String {
        self.text.chars().take(RULE_CHARS_SHOWN_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn schema(yaml: &str) -> Schema {
        let value: Value = serde_saphyr::from_str(yaml).expect("the schema can be read");
        Schema::compile(&value).expect("the schema is structural")
    }

    fn told(problems: &[Invalid]) -> String {
        let line = |one: &Invalid| format!("{}: {:?}: {}\n", one.field, one.problem, one.message);
        problems.iter().map(line).collect()
    }

    #[track_caller]
    fn refused(yaml: &str, expect: Expect) {
        let problems =
            Expressions::compile(&schema(yaml), &Path::Text("s")).expect_err("it is wrong");
        expect.assert_eq(&told(&problems));
    }

    #[track_caller]
    fn broken(yaml: &str, value: &Value, old: Option<&Value>, expect: Expect) {
        let expressions = Expressions::compile(&schema(yaml), &Path::ROOT);
        let expressions = expressions.expect("the rules are right").expect("there are rules");
        expect.assert_eq(&told(&expressions.check(value, old)));
    }

    #[test]
    fn a_schema_without_rules_has_none() {
        assert!(Expressions::compile(&schema("{type: object}"), &Path::ROOT).unwrap().is_none());
    }

    #[test]
    fn rules_are_checked_where_they_stand() {
        refused(
            "{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self > 'x'}]}}}",
            expect![[r#"
                s.properties[a].x-kubernetes-validations[0].rule: Invalid: "self > 'x'": compilation failed: ERROR: <input>:1:6: found no matching overload for '_>_' applied to '(int, string)'
                 | self > 'x'
                 | .....^
            "#]],
        );
        refused(
            "{type: object, x-kubernetes-map-type: atomic, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self > oldSelf}]}}}",
            expect![[r#"
                s.properties[a].x-kubernetes-validations[0].rule: Invalid: "self > oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within s
            "#]],
        );
    }

    /// A rule that costs little is asked so often that it costs too much: the object has a budget as well.
    #[test]
    fn all_rules_of_an_object_share_a_budget() {
        let yaml = "{type: object, properties: {items: {type: array, items: {type: array, items: {type: integer}, \
                    x-kubernetes-validations: [{rule: 'self.all(a, self.all(b, a + b > -1))'}]}}}}";
        let many: Vec<Value> = vec![json!((0..300).collect::<Vec<i32>>()); 60];
        broken(
            yaml,
            &json!({"items": many}),
            None,
            expect![[r#"
            items[13]: Invalid: "array": validation failed due to running out of cost budget, no further validation rules will be run
        "#]],
        );
        let long = json!({"items": [(0..2000).collect::<Vec<i32>>(), [-1]]});
        broken(
            yaml,
            &long,
            None,
            expect![[r#"
            items[0]: Invalid: "array": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.all(a, self.all(b, a + b > -1))
        "#]],
        );
    }

    #[test]
    fn a_message_that_cannot_be_said_gives_way_to_the_other() {
        let yaml = "{type: object, properties: {a: {type: integer}, b: {type: integer}}, x-kubernetes-validations: [\
                    {rule: self.a > 0, messageExpression: \"'b is ' + string(self.b)\", message: a must be positive},\
                    {rule: self.a > 0, messageExpression: \"' '\", reason: FieldValueDuplicate, fieldPath: .a}]}";
        broken(
            yaml,
            &json!({"a": 0, "b": 7}),
            None,
            expect![[r#"
            : Invalid: "object": b is 7
            a: Duplicate: "object"
        "#]],
        );
        broken(
            yaml,
            &json!({"a": 0}),
            None,
            expect![[r#"
            : Invalid: "object": a must be positive
            a: Duplicate: "object"
        "#]],
        );
    }
}
