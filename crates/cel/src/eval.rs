//! The value of an expression, within a budget.

use std::rc::Rc;

use serde_json::Value as Json;

use crate::ast::{Access, Expr, Form, Loop, LoopKind};
use crate::budget::Budget;
use crate::error::EvalError;
use crate::functions::{self, overloads};
use crate::types::Type;
use crate::value::{Evaluated, List, Map, Text, Value, compare, equal};

/// What is made of one element of a list in memory, beside the element.
const ELEMENT_BYTES: usize = size_of::<Value<'static>>();

pub(crate) struct Evaluator<'a, 'b> {
    /// The innermost last.
    scope: Vec<(&'a str, Value<'a>)>,
    budget: &'b mut Budget,
}

pub(crate) fn evaluate<'a>(
    expr: &'a Expr,
    variables: &[(&'a str, Option<&'a Json>, &'a Type)],
    budget: &mut Budget,
) -> Evaluated<'a> {
    let mut scope = Vec::new();
    for (name, json, type_) in variables {
        let value = match (json, type_) {
            // What is optional is there in any case, if only as nothing.
            (json, Type::Optional(of)) => {
                let found = json.map(|json| Value::of(json, of)).transpose()?;
                Value::Optional(found.map(Rc::new))
            }
            (Some(json), type_) => Value::of(json, type_)?,
            (None, _) => continue,
        };
        scope.push((*name, value));
    }
    Evaluator { scope, budget }.value(expr)
}

impl<'a> Evaluator<'a, '_> {
    fn value(&mut self, expr: &'a Expr) -> Evaluated<'a> {
        match &expr.form {
            Form::Null => Ok(Value::Null),
            Form::Bool(truth) => Ok(Value::Bool(*truth)),
            Form::Int(number) => Ok(Value::Int(*number)),
            Form::Uint(number) => Ok(Value::Uint(*number)),
            Form::Double(number) => Ok(Value::Double(*number)),
            Form::Text(text) => Ok(Value::String(Text::Of(text))),
            Form::Bytes(bytes) => {
                self.budget.make(bytes.len())?;
                Ok(Value::Bytes(bytes.as_slice().into()))
            }
            Form::Name(name) => self.name(name),
            Form::Select(of, field, access) => self.select(of, field, *access),
            Form::Has(of, field) => self.has(of, field),
            Form::Index(of, index, access) => self.index(of, index, *access),
            Form::Call(name, of, arguments) => self.call(name, of.as_deref(), arguments),
            Form::And(one, other) => self.logic(one, other, false),
            Form::Or(one, other) => self.logic(one, other, true),
            Form::If(condition, yes, no) => match self.value(condition)? {
                Value::Bool(true) => self.value(yes),
                Value::Bool(false) => self.value(no),
                other => Err(no_overload("_?_:_", &[other])),
            },
            Form::List(elements) => self.list(elements),
            Form::Map(entries) => self.map(entries),
            Form::Loop(found) => self.comprehension(found),
            Form::WithValue { of, name, body, flat } => self.with_value(of, name, body, *flat),
        }
    }

    fn name(&mut self, name: &'a str) -> Evaluated<'a> {
        self.budget.spend(1)?;
        if let Some((_, value)) = self.scope.iter().rev().find(|(known, _)| *known == name) {
            return Ok(value.clone());
        }
        match functions::type_value(name) {
            Some(type_) => Ok(Value::Type(type_)),
            None => Err(EvalError::failed(format!("no such attribute(s): {name}"))),
        }
    }

    fn select(&mut self, of: &'a Expr, field: &'a str, access: Access) -> Evaluated<'a> {
        self.budget.spend(1)?;
        match (self.value(of)?, access) {
            (Value::Map(map), Access::Plain) => field_of(&map, field),
            (Value::Map(map), Access::Optional) => {
                Ok(Value::Optional(map.field(field)?.map(Rc::new)))
            }
            (Value::Optional(None), _) => Ok(Value::Optional(None)),
            (Value::Optional(Some(value)), _) => match &*value {
                Value::Map(map) => Ok(Value::Optional(map.field(field)?.map(Rc::new))),
                other => Err(no_overload("select", std::slice::from_ref(other))),
            },
            (other, _) => Err(no_overload("select", &[other])),
        }
    }

    /// Free of charge, as in Kubernetes: it is what guards the expensive parts.
    fn has(&mut self, of: &'a Expr, field: &'a str) -> Evaluated<'a> {
        match self.value(of)? {
            Value::Map(map) => Ok(Value::Bool(map.field(field)?.is_some())),
            Value::Optional(None) => Ok(Value::Bool(false)),
            Value::Optional(Some(value)) => match &*value {
                Value::Map(map) => Ok(Value::Bool(map.field(field)?.is_some())),
                _ => Ok(Value::Bool(false)),
            },
            other => Err(no_overload("has", &[other])),
        }
    }

    fn index(&mut self, of: &'a Expr, index: &'a Expr, access: Access) -> Evaluated<'a> {
        self.budget.spend(1)?;
        let (of, index) = (self.value(of)?, self.value(index)?);
        match (of, access) {
            (Value::Optional(None), _) => Ok(Value::Optional(None)),
            (Value::Optional(Some(of)), _) => {
                Ok(Value::Optional(self.item(&of, &index)?.map(Rc::new)))
            }
            (of, Access::Optional) => Ok(Value::Optional(self.item(&of, &index)?.map(Rc::new))),
            (of, Access::Plain) => match (self.item(&of, &index)?, index) {
                (Some(found), _) => Ok(found),
                (None, Value::Int(index)) => Err(EvalError::failed(match of {
                    Value::List(_) => format!("index out of bounds: {index}"),
                    _ => format!("no such key: {index}"),
                })),
                (None, Value::String(key)) => {
                    Err(EvalError::failed(format!("no such key: {}", &*key)))
                }
                (None, _) => Err(EvalError::failed("no such key")),
            },
        }
    }

    fn item(&mut self, of: &Value<'a>, index: &Value<'a>) -> Result<Option<Value<'a>>, EvalError> {
        match (of, index) {
            (Value::List(list), Value::Int(index)) => {
                usize::try_from(*index).ok().and_then(|index| list.get(index)).transpose()
            }
            (Value::Map(map), key) => map.get(key, self.budget),
            (of, index) => Err(no_overload("_[_]", &[of.clone(), index.clone()])),
        }
    }

    fn call(
        &mut self,
        name: &'a str,
        of: Option<&'a Expr>,
        arguments: &'a [Expr],
    ) -> Evaluated<'a> {
        self.budget.spend(1)?;
        let qualified = match of {
            Some(Expr { form: Form::Name(space), .. }) if functions::is_qualified(space, name) => {
                Some(format!("{space}.{name}"))
            }
            _ => None,
        };
        let receiver = of.filter(|_| qualified.is_none());
        let mut values = Vec::with_capacity(arguments.len() + 1);
        for argument in receiver.into_iter().chain(arguments) {
            values.push(self.value(argument)?);
        }
        if let Some(value) = self.comparison(name, &values)? {
            return Ok(value);
        }
        let known = overloads(qualified.as_deref().unwrap_or(name), receiver.is_some());
        let fits = |types: &[Type]| {
            types.len() == values.len()
                && types.iter().zip(&values).all(|(type_, value)| value.fits(type_))
        };
        match known.iter().find(|overload| fits(&overload.arguments)) {
            Some(overload) => (overload.run)(&values, self.budget),
            None => Err(no_overload(name, &values)),
        }
    }

    fn comparison(
        &mut self,
        name: &str,
        values: &[Value<'a>],
    ) -> Result<Option<Value<'a>>, EvalError> {
        let [one, other] = values else { return Ok(None) };
        let truth = match name {
            "_==_" => equal(one, other, self.budget)?,
            "_!=_" => !equal(one, other, self.budget)?,
            "_>_" | "_<=_" | "_>=_" => {
                if let (Value::String(one), Value::String(other)) = (one, other) {
                    self.budget.spend_on_bytes(one.len().min(other.len()))?;
                }
                let Some(order) = compare(one, other) else {
                    return Err(no_overload(name, values));
                };
                match name {
                    "_>_" => order.is_gt(),
                    "_<=_" => order.is_le(),
                    _ => order.is_ge(),
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(Value::Bool(truth)))
    }

    /// One side that decides makes up for an error of the other, whichever comes first.
    fn logic(&mut self, one: &'a Expr, other: &'a Expr, decides: bool) -> Evaluated<'a> {
        self.budget.spend(1)?;
        let first = self.value(one);
        match &first {
            Ok(Value::Bool(truth)) if *truth == decides => return first,
            Err(EvalError::TooCostly) => return first,
            Ok(_) | Err(EvalError::NoOverload(_) | EvalError::Failed(_)) => (),
        }
        let name = if decides { "_||_" } else { "_&&_" };
        match (first, self.value(other)?) {
            (_, Value::Bool(truth)) if truth == decides => Ok(Value::Bool(truth)),
            (Ok(Value::Bool(_)), Value::Bool(truth)) => Ok(Value::Bool(truth)),
            (Ok(first), second) => Err(no_overload(name, &[first, second])),
            (Err(error), _) => Err(error),
        }
    }

    fn list(&mut self, elements: &'a [(Expr, Access)]) -> Evaluated<'a> {
        self.budget.make(10 + elements.len() * ELEMENT_BYTES)?;
        let mut values = Vec::with_capacity(elements.len());
        for (element, access) in elements {
            match (self.value(element)?, access) {
                (Value::Optional(None), Access::Optional) => (),
                (Value::Optional(Some(value)), Access::Optional) => values.push((*value).clone()),
                (value, _) => values.push(value),
            }
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &'a [(Expr, Expr, Access)]) -> Evaluated<'a> {
        self.budget.make(30 + entries.len() * 2 * ELEMENT_BYTES)?;
        let mut made = Vec::with_capacity(entries.len());
        for (key, value, access) in entries {
            let key = self.value(key)?;
            match (self.value(value)?, access) {
                (Value::Optional(None), Access::Optional) => (),
                (Value::Optional(Some(value)), Access::Optional) => {
                    self.insert(&mut made, key, (*value).clone())?;
                }
                (value, _) => self.insert(&mut made, key, value)?,
            }
        }
        Ok(Value::Map(Map::Made(made.into())))
    }

    fn insert(
        &mut self,
        entries: &mut Vec<(Value<'a>, Value<'a>)>,
        key: Value<'a>,
        value: Value<'a>,
    ) -> Result<(), EvalError> {
        for (known, _) in entries.iter() {
            if equal(known, &key, self.budget)? {
                return Err(EvalError::failed("insert failed: the key is there already"));
            }
        }
        entries.push((key, value));
        Ok(())
    }

    fn comprehension(&mut self, found: &'a Loop) -> Evaluated<'a> {
        let range = self.value(&found.range)?;
        let (keys, values) = self.pairs(&range)?;
        let outside = self.scope.len();
        let mut made = Made::of(found.kind);
        for (index, key) in keys.into_iter().enumerate() {
            self.budget.spend(1)?;
            match (found.names.as_slice(), &range) {
                ([name], Value::List(_)) => {
                    let value = self.nth(&values, index)?;
                    self.scope.push((name, value));
                }
                ([name], _) => self.scope.push((name, key.clone())),
                ([one, other], _) => {
                    let value = self.nth(&values, index)?;
                    self.scope.push((one, key.clone()));
                    self.scope.push((other, value));
                }
                (_, _) => (),
            }
            let done = self.step(found, key, &mut made);
            self.scope.truncate(outside);
            if done? {
                break;
            }
        }
        made.result()
    }

    /// The keys, or the places of a list, and where the values are.
    fn pairs(&mut self, range: &Value<'a>) -> Result<(Vec<Value<'a>>, Values<'a>), EvalError> {
        match range {
            Value::List(list) => {
                self.budget.make(list.len() * ELEMENT_BYTES)?;
                let places = 0..i64::try_from(list.len()).unwrap_or(i64::MAX);
                Ok((places.map(Value::Int).collect(), Values::List(list.clone())))
            }
            Value::Map(map) => {
                self.budget.make(map.len() * ELEMENT_BYTES)?;
                let keys = map.keys();
                Ok((keys.clone(), Values::Map(map.clone(), keys)))
            }
            other => Err(no_overload("comprehension", std::slice::from_ref(other))),
        }
    }

    fn nth(&mut self, values: &Values<'a>, index: usize) -> Evaluated<'a> {
        let found = match values {
            Values::List(list) => list.get(index).transpose()?,
            Values::Map(map, keys) => map.get(&keys[index], self.budget)?,
        };
        found.ok_or_else(|| EvalError::failed("no such key"))
    }

    /// One round; whether no other is needed.
    fn step(
        &mut self,
        found: &'a Loop,
        key: Value<'a>,
        made: &mut Made<'a>,
    ) -> Result<bool, EvalError> {
        if let Some(filter) = &found.filter {
            match self.value(filter)? {
                Value::Bool(true) => (),
                Value::Bool(false) => return Ok(false),
                other => return Err(no_overload("filter", &[other])),
            }
        }
        match made {
            Made::Decides { decisive, error, .. } => match self.value(&found.body) {
                Ok(Value::Bool(truth)) if truth == *decisive => {
                    *made = Made::Decided(truth);
                    return Ok(true);
                }
                Ok(Value::Bool(_)) => (),
                Ok(other) => return Err(no_overload("a condition", &[other])),
                Err(EvalError::TooCostly) => return Err(EvalError::TooCostly),
                // Another element may decide all the same.
                Err(problem) => *error = Some(problem),
            },
            Made::Decided(_) => return Ok(true),
            Made::Count(count) => match self.value(&found.body)? {
                Value::Bool(true) => *count += 1,
                Value::Bool(false) => (),
                other => return Err(no_overload("a condition", &[other])),
            },
            Made::List(values) => {
                self.budget.make(ELEMENT_BYTES)?;
                values.push(self.value(&found.body)?);
            }
            Made::Map(entries) => {
                self.budget.make(2 * ELEMENT_BYTES)?;
                let value = self.value(&found.body)?;
                match (found.kind, value) {
                    (LoopKind::Entries, Value::Map(one)) => {
                        for key in one.keys() {
                            let value = one.get(&key, self.budget)?.unwrap_or(Value::Null);
                            self.insert(entries, key, value)?;
                        }
                    }
                    (LoopKind::Entries, other) => return Err(no_overload("an entry", &[other])),
                    (_, value) => entries.push((key, value)),
                }
            }
        }
        Ok(false)
    }

    fn with_value(
        &mut self,
        of: &'a Expr,
        name: &'a str,
        body: &'a Expr,
        flat: bool,
    ) -> Evaluated<'a> {
        self.budget.spend(1)?;
        let inner = match self.value(of)? {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => inner,
            other => return Err(no_overload("optMap", &[other])),
        };
        self.scope.push((name, (*inner).clone()));
        let result = self.value(body);
        self.scope.pop();
        Ok(if flat { result? } else { Value::some(result?) })
    }
}

enum Values<'a> {
    List(List<'a>),
    Map(Map<'a>, Vec<Value<'a>>),
}

/// What a loop makes.
enum Made<'a> {
    /// `all` waits for a no, `exists` for a yes.
    Decides {
        decisive: bool,
        error: Option<EvalError>,
    },
    Decided(bool),
    Count(usize),
    List(Vec<Value<'a>>),
    Map(Vec<(Value<'a>, Value<'a>)>),
}

impl<'a> Made<'a> {
    fn of(kind: LoopKind) -> Made<'a> {
        match kind {
            LoopKind::All => Made::Decides { decisive: false, error: None },
            LoopKind::Exists => Made::Decides { decisive: true, error: None },
            LoopKind::ExistsOne => Made::Count(0),
            LoopKind::List => Made::List(Vec::new()),
            LoopKind::Map | LoopKind::Entries => Made::Map(Vec::new()),
        }
    }

    fn result(self) -> Evaluated<'a> {
        match self {
            Made::Decides { error: Some(error), .. } => Err(error),
            Made::Decides { decisive, error: None } => Ok(Value::Bool(!decisive)),
            Made::Decided(truth) => Ok(Value::Bool(truth)),
            Made::Count(count) => Ok(Value::Bool(count == 1)),
            Made::List(values) => Ok(Value::list(values)),
            Made::Map(entries) => Ok(Value::Map(Map::Made(entries.into()))),
        }
    }
}

fn field_of<'a>(map: &Map<'a>, field: &str) -> Evaluated<'a> {
    map.field(field)?.ok_or_else(|| EvalError::failed(format!("no such key: {field}")))
}

fn no_overload(name: &str, values: &[Value<'_>]) -> EvalError {
    let types: Vec<&str> = values.iter().map(Value::type_name).collect();
    EvalError::NoOverload(format!("{name}({})", types.join(", ")))
}
