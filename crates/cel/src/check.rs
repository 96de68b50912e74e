//! The types of an expression before it is evaluated: a name that is not there, a field that the schema does not
//! have and a function that does not take what it is given are told when the rule is written.

use crate::ast::{Access, Expr, Form, Loop, LoopKind};
use crate::error::Error;
use crate::functions::{self, overloads};
use crate::types::{Bindings, Type, join};

/// More would not help who reads them.
const ERRORS_MAX: usize = 10;

/// The type of the whole, or what is wrong with it.
pub(crate) fn check(expr: &Expr, variables: &[(&str, Type)]) -> Result<Type, Vec<Error>> {
    let scope = variables.iter().map(|(name, type_)| ((*name).to_owned(), type_.clone())).collect();
    let mut checker = Checker { scope, errors: Vec::new(), in_format: 0 };
    let found = checker.type_of(expr);
    if checker.errors.is_empty() { Ok(found) } else { Err(checker.errors) }
}

struct Checker {
    /// The innermost last.
    scope: Vec<(String, Type)>,
    errors: Vec<Error>,
    /// How many calls of `format` are around: what it shows may be of any types.
    in_format: usize,
}

impl Checker {
    /// After an error anything will do: one mistake is told once.
    fn fail(&mut self, at: usize, message: String) -> Type {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(Error::new(at, message));
        }
        Type::Dyn
    }

    fn type_of(&mut self, expr: &Expr) -> Type {
        match &expr.form {
            Form::Null => Type::Null,
            Form::Bool(_) => Type::Bool,
            Form::Int(_) => Type::Int,
            Form::Uint(_) => Type::Uint,
            Form::Double(_) => Type::Double,
            Form::Text(_) => Type::String,
            Form::Bytes(_) => Type::Bytes,
            Form::Name(name) => self.name(expr.at, name),
            Form::Select(of, field, access) => {
                let of = self.type_of(of);
                self.select(expr.at, &of, field, *access)
            }
            Form::Has(of, field) => {
                let of = self.type_of(of);
                self.select(expr.at, &of, field, Access::Plain);
                Type::Bool
            }
            Form::Index(of, index, access) => self.index(expr.at, of, index, *access),
            Form::Call(name, of, arguments) => self.call(expr.at, name, of.as_deref(), arguments),
            Form::And(one, other) => self.logic(expr.at, "_&&_", one, other),
            Form::Or(one, other) => self.logic(expr.at, "_||_", one, other),
            Form::If(condition, yes, no) => self.choice(expr.at, condition, yes, no),
            Form::List(elements) => self.list(elements),
            Form::Map(entries) => self.map(entries),
            Form::Loop(found) => self.comprehension(found),
            Form::WithValue { of, name, body, flat } => self.with_value(of, name, body, *flat),
        }
    }

    fn name(&mut self, at: usize, name: &str) -> Type {
        if let Some((_, type_)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            return type_.clone();
        }
        match functions::type_value(name) {
            Some(_) => Type::Type,
            None => self.fail(at, format!("undeclared reference to '{name}' (in container '')")),
        }
    }

    fn select(&mut self, at: usize, of: &Type, field: &str, access: Access) -> Type {
        let found = match of {
            Type::Optional(of) => {
                let found = self.select(at, of, field, Access::Plain);
                return optional(found);
            }
            Type::Object(object) => match object.fields.get(field) {
                Some(field) => field.type_.clone(),
                None => return self.fail(at, format!("undefined field '{field}'")),
            },
            Type::Map(_, value) => (**value).clone(),
            Type::Dyn | Type::Param(_) => Type::Dyn,
            other => {
                return self.fail(at, format!("type '{other}' does not support field selection"));
            }
        };
        if access == Access::Optional { optional(found) } else { found }
    }

    fn index(&mut self, at: usize, of: &Expr, index: &Expr, access: Access) -> Type {
        let (of_type, index_type) = (self.type_of(of), self.type_of(index));
        let (container, is_optional) = match &of_type {
            Type::Optional(of) => ((**of).clone(), true),
            other => (other.clone(), access == Access::Optional),
        };
        let mut bindings = Bindings::default();
        let found = match &container {
            Type::List(of) if bindings.takes(&Type::Int, &index_type) => Some((**of).clone()),
            Type::Map(key, value) if bindings.takes(key, &index_type) => Some((**value).clone()),
            Type::Dyn => Some(Type::Dyn),
            _ => None,
        };
        match found {
            Some(found) if is_optional => optional(found),
            Some(found) => found,
            None => self.no_overload(at, "_[_]", None, &[of_type, index_type]),
        }
    }

    fn no_overload(
        &mut self,
        at: usize,
        name: &str,
        receiver: Option<&Type>,
        arguments: &[Type],
    ) -> Type {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let receiver = receiver.map(|type_| format!("{type_}.")).unwrap_or_default();
        let signature = format!("{receiver}({})", arguments.join(", "));
        self.fail(at, format!("found no matching overload for '{name}' applied to '{signature}'"))
    }

    fn call(&mut self, at: usize, name: &str, of: Option<&Expr>, arguments: &[Expr]) -> Type {
        // `sets.contains` is a function and not a field of something that is called `sets`.
        if let Some(Expr { form: Form::Name(space), .. }) = of
            && functions::is_qualified(space, name)
        {
            return self.call(at, &format!("{space}.{name}"), None, arguments);
        }
        let receiver = of.map(|of| self.type_of(of));
        let is_format = usize::from(name == "format" && of.is_some());
        self.in_format += is_format;
        let arguments: Vec<Type> = arguments.iter().map(|one| self.type_of(one)).collect();
        self.in_format -= is_format;
        if let Some(type_) = self.comparison(at, name, &arguments) {
            return type_;
        }
        let known = overloads(name, receiver.is_some());
        if known.is_empty() && overloads(name, receiver.is_none()).is_empty() {
            let message = format!("undeclared reference to '{name}' (in container '')");
            return self.fail(at, message);
        }
        let given: Vec<&Type> = receiver.iter().chain(&arguments).collect();
        let mut results = Vec::new();
        for overload in known.iter().filter(|overload| overload.arguments.len() == given.len()) {
            let mut bindings = Bindings::default();
            let pairs = overload.arguments.iter().zip(&given);
            if pairs.into_iter().all(|(declared, found)| bindings.takes(declared, found)) {
                results.push(bindings.fill(&overload.result));
            }
        }
        // Of several that fit, as they do where something is dyn, the result is what they share.
        let shared =
            results.into_iter().reduce(|one, other| join(&one, &other).unwrap_or(Type::Dyn));
        match shared {
            Some(shared) => shared,
            None => self.no_overload(at, name, receiver.as_ref(), &arguments),
        }
    }

    /// Equality is of any two values of one type; the order is that of `_<_`.
    fn comparison(&mut self, at: usize, name: &str, arguments: &[Type]) -> Option<Type> {
        let [one, other] = arguments else { return None };
        let mut bindings = Bindings::default();
        let fits = match name {
            "_==_" | "_!=_" => {
                let any = Type::Param(0);
                bindings.takes(&any, one) && bindings.takes(&any, other)
            }
            "_>_" | "_<=_" | "_>=_" => overloads("_<_", false).iter().any(|overload| {
                bindings.takes(&overload.arguments[0], one)
                    && bindings.takes(&overload.arguments[1], other)
            }),
            _ => return None,
        };
        Some(match fits {
            true => Type::Bool,
            false => self.no_overload(at, name, None, arguments),
        })
    }

    fn logic(&mut self, at: usize, name: &str, one: &Expr, other: &Expr) -> Type {
        let types = [self.type_of(one), self.type_of(other)];
        let fits = |type_: &Type| matches!(type_, Type::Bool | Type::Dyn);
        match types.iter().all(fits) {
            true => Type::Bool,
            false => self.no_overload(at, name, None, &types),
        }
    }

    fn choice(&mut self, at: usize, condition: &Expr, yes: &Expr, no: &Expr) -> Type {
        let condition = self.type_of(condition);
        let (yes, no) = (self.type_of(yes), self.type_of(no));
        match (matches!(condition, Type::Bool | Type::Dyn), join(&yes, &no)) {
            (true, Some(joined)) => joined,
            _ => self.no_overload(at, "_?_:_", None, &[condition, yes, no]),
        }
    }

    /// All elements are of one type: mixed ones must be made dyn by who wants them.
    fn list(&mut self, elements: &[(Expr, Access)]) -> Type {
        let mut shared: Option<Type> = None;
        for (element, access) in elements {
            let found = self.element(element, *access);
            shared = Some(self.shared(element.at, shared, found));
        }
        Type::list(shared.unwrap_or(Type::Dyn))
    }

    fn element(&mut self, expr: &Expr, access: Access) -> Type {
        let found = self.type_of(expr);
        match (access, found) {
            (Access::Optional, Type::Optional(of)) => (*of).clone(),
            (Access::Optional, Type::Dyn) => Type::Dyn,
            (Access::Optional, other) => {
                let message = format!("expected type 'optional_type({other})' but found '{other}'");
                self.fail(expr.at, message)
            }
            (Access::Plain, found) => found,
        }
    }

    fn shared(&mut self, at: usize, shared: Option<Type>, found: Type) -> Type {
        let Some(shared) = shared else { return found };
        match join(&shared, &found) {
            Some(joined) => joined,
            None if self.in_format > 0 => Type::Dyn,
            None => self.fail(at, format!("expected type '{shared}' but found '{found}'")),
        }
    }

    fn map(&mut self, entries: &[(Expr, Expr, Access)]) -> Type {
        let (mut keys, mut values) = (None, None);
        for (key, value, access) in entries {
            let found = self.type_of(key);
            keys = Some(self.shared(key.at, keys, found));
            let found = self.element(value, *access);
            values = Some(self.shared(value.at, values, found));
        }
        Type::map(keys.unwrap_or(Type::Dyn), values.unwrap_or(Type::Dyn))
    }

    fn comprehension(&mut self, found: &Loop) -> Type {
        let range = self.type_of(&found.range);
        let pair = match &range {
            Type::List(of) => [Type::Int, (**of).clone()],
            Type::Map(key, value) => [(**key).clone(), (**value).clone()],
            Type::Dyn => [Type::Dyn, Type::Dyn],
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                return self.fail(found.range.at, message);
            }
        };
        let outside = self.scope.len();
        match (found.names.as_slice(), pair, &range) {
            // One name is the element of a list, and the key of a map.
            ([name], [_, value], Type::List(_)) => self.scope.push((name.clone(), value)),
            ([name], [key, _], _) => self.scope.push((name.clone(), key)),
            (names, pair, _) => self.scope.extend(names.iter().cloned().zip(pair)),
        }
        if let Some(filter) = &found.filter {
            self.expect_bool(filter);
        }
        let result = match found.kind {
            LoopKind::All | LoopKind::Exists | LoopKind::ExistsOne => {
                self.expect_bool(&found.body);
                Type::Bool
            }
            LoopKind::List => Type::list(self.type_of(&found.body)),
            LoopKind::Map => {
                let key = match &range {
                    Type::Map(key, _) => (**key).clone(),
                    Type::List(_) => Type::Int,
                    _ => Type::Dyn,
                };
                Type::map(key, self.type_of(&found.body))
            }
            LoopKind::Entries => match self.type_of(&found.body) {
                map @ (Type::Map(..) | Type::Dyn) => map,
                other => {
                    let at = found.body.at;
                    self.fail(at, format!("expected type 'map(dyn, dyn)' but found '{other}'"))
                }
            },
        };
        self.scope.truncate(outside);
        result
    }

    fn expect_bool(&mut self, expr: &Expr) {
        match self.type_of(expr) {
            Type::Bool | Type::Dyn => (),
            other => {
                self.fail(expr.at, format!("expected type 'bool' but found '{other}'"));
            }
        }
    }

    fn with_value(&mut self, of: &Expr, name: &str, body: &Expr, flat: bool) -> Type {
        let inner = match self.type_of(of) {
            Type::Optional(of) => (*of).clone(),
            Type::Dyn => Type::Dyn,
            other => return self.no_overload(of.at, "optMap", Some(&other), &[]),
        };
        self.scope.push((name.to_owned(), inner));
        let result = self.type_of(body);
        self.scope.pop();
        match (flat, result) {
            (false, result) => Type::optional(result),
            (true, result @ (Type::Optional(_) | Type::Dyn)) => result,
            (true, other) => self.no_overload(body.at, "optFlatMap", Some(&other), &[]),
        }
    }
}

fn optional(type_: Type) -> Type {
    match type_ {
        already @ Type::Optional(_) => already,
        other => Type::optional(other),
    }
}
