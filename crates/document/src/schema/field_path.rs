//! The `fieldPath` of a rule: `.spec.ports` or `.data['a.b']`, which must be there in the schema.

use super::{Additional, Schema};

/// The path as it follows that of the node: with a dot before each field and brackets around each key.
pub(super) fn normalised(path: &str, schema: &Schema) -> Result<String, &'static str> {
    let (mut rest, mut schema, mut text) = (path.trim(), schema, String::new());
    while !rest.is_empty() {
        let (name, after) = step(rest)?;
        rest = after;
        schema = match (schema.properties.get(&name), &schema.additional) {
            (Some(property), _) => {
                text.push('.');
                text.push_str(&name);
                property
            }
            (None, Additional::Each(each)) if schema.properties.is_empty() => {
                text.push_str(&format!("[{name}]"));
                each
            }
            (None, _) => return Err("does not refer to a valid field"),
        };
    }
    Ok(text)
}

/// The first name of a path, and what comes after it.
fn step(path: &str) -> Result<(String, &str), &'static str> {
    if let Some(rest) = path.strip_prefix('.') {
        let length = rest.find(['.', '[']).unwrap_or(rest.len());
        return match &rest[..length] {
            "" => Err("a dot is followed by a name"),
            name => Ok((name.to_owned(), &rest[length..])),
        };
    }
    let quoted =
        path.strip_prefix("['").ok_or("expected a dot, or a single quoted string in brackets")?;
    let mut name = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' => {
                let rest = quoted[at + 1..].strip_prefix(']').ok_or("expected ]")?;
                return Ok((name, rest));
            }
            '\\' => match letters.next() {
                Some((_, letter @ ('\'' | '\\'))) => name.push(letter),
                _ => return Err("invalid string literal"),
            },
            letter => name.push(letter),
        }
    }
    Err("unexpected end of the path")
}
