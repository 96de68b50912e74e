//! Entries that were written under another schema. When a list or an object becomes one piece, who
//! owned a part of it owns the piece; otherwise nobody would be asked before it changes. What
//! becomes shared instead stays with its owner as a whole, since nobody can tell the parts.

use crate::schema::Schema;

use super::element::PathElement;
use super::entry::Entry;
use super::fields::{FieldSet, Owned};
use super::shape::Shape;

pub(super) fn with_schema(entries: &mut [Entry], schema: &Schema) {
    for entry in entries {
        entry.fields = fit(&entry.fields, Shape::root(schema));
    }
}

fn fit(fields: &FieldSet, shape: Shape<'_>) -> FieldSet {
    let mut fitted = FieldSet::default();
    for (element, owned, below) in fields.top() {
        let inner = match element {
            PathElement::Field(name) => Some(shape.field(name).0),
            PathElement::Key(_) | PathElement::Value(_) | PathElement::Index(_) => {
                shape.items().map(|items| items.shape)
            }
        };
        match inner {
            Some(inner) if !is_one_piece(below, inner) => {
                fitted.graft(element.clone(), owned, fit(below, inner));
            }
            Some(_) => fitted.graft(element.clone(), Owned::Itself, FieldSet::default()),
            // Somewhere that has no items; left as it is, it means nothing and harms nothing.
            None => fitted.graft(element.clone(), owned, below.clone()),
        }
    }
    fitted
}

/// Whether the place that has these parts has none by its schema.
fn is_one_piece(parts: &FieldSet, shape: Shape<'_>) -> bool {
    parts.top().any(|(element, _, _)| match element {
        PathElement::Field(_) => shape.is_atomic(),
        PathElement::Key(_) | PathElement::Value(_) | PathElement::Index(_) => {
            shape.items().is_none()
        }
    })
}
