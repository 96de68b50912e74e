//! Fills in what a schema gives by default. The handlers call it after decoding and pruning, and
//! before validation.

use serde_json::{Map, Value};

use super::{Additional, Schema};

impl Schema {
    /// Sets each absent property that has a default, from the top down, so that a default for an
    /// object is filled in turn. A null where null is not allowed counts as absent: it takes the
    /// default, and a property without one loses it.
    pub fn fill_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(object) => self.fill_object(object),
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    items.iter_mut().for_each(|item| schema.fill_entry(item));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
        }
    }

    fn fill_object(&self, object: &mut Map<String, Value>) {
        for (name, schema) in &self.properties {
            let absent = match object.get(name) {
                None => true,
                Some(value) => value.is_null() && !schema.nullable,
            };
            match (absent, &schema.default) {
                (false, _) => (),
                (true, Some(default)) => {
                    object.insert(name.clone(), default.clone());
                }
                (true, None) => {
                    object.remove(name);
                }
            }
            if let Some(value) = object.get_mut(name) {
                schema.fill_defaults(value);
            }
        }
        if let Additional::Each(schema) = &self.additional {
            let others = object.iter_mut().filter(|(name, _)| !self.properties.contains_key(*name));
            others.for_each(|(_, value)| schema.fill_entry(value));
        }
    }

    /// An entry of a list or a map is never dropped: only validation may complain of its null.
    fn fill_entry(&self, value: &mut Value) {
        if let (true, false, Some(default)) = (value.is_null(), self.nullable, &self.default) {
            *value = default.clone();
        }
        self.fill_defaults(value);
    }
}
