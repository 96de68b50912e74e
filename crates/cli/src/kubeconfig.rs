//! Kubeconfigs as documents: made for a person, put together, and told from a mere token. Pure.
//!
//! `token create` makes them, `login`, `logout` and `config` change them, `connection` reads them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use tombolo_identity::Token;

/// The lists of a kubeconfig. Their entries have names.
const LISTS: [&str; 3] = ["clusters", "users", "contexts"];

/// One way to one server, for one person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Of the context, the cluster and the user alike.
    pub(crate) name: String,
    pub(crate) server: String,
    /// The authority that the server is known by, as PEM.
    pub(crate) authority: Option<String>,
    pub(crate) token: String,
    pub(crate) namespace: Option<String>,
}

/// A context as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    pub(crate) name: String,
    pub(crate) server: String,
    pub(crate) user: String,
    pub(crate) namespace: String,
    pub(crate) current: bool,
}

impl Access {
    /// A kubeconfig with this and nothing else.
    pub(crate) fn alone(&self) -> Value {
        self.within(json!({"apiVersion": "v1", "kind": "Config"}))
    }

    /// The kubeconfig with this in it, as its current context. What had the same name is replaced.
    pub(crate) fn within(&self, mut config: Value) -> Value {
        let name = &self.name;
        let mut cluster = json!({"server": self.server});
        if let Some(authority) = &self.authority {
            cluster["certificate-authority-data"] = BASE64.encode(authority).into();
        }
        let mut context = json!({"cluster": name, "user": name});
        if let Some(namespace) = &self.namespace {
            context["namespace"] = namespace.as_str().into();
        }
        let user = json!({"token": self.token});
        put(&mut config, "clusters", json!({"name": name, "cluster": cluster}));
        put(&mut config, "users", json!({"name": name, "user": user}));
        put(&mut config, "contexts", json!({"name": name, "context": context}));
        config["current-context"] = name.as_str().into();
        config
    }

    /// What the current context of a kubeconfig says, as far as it is said in the file itself.
    pub(crate) fn current(config: &Value) -> Option<Access> {
        let name = config["current-context"].as_str()?;
        let context = &entry(config, "contexts", name)?["context"];
        let cluster = &entry(config, "clusters", context["cluster"].as_str()?)?["cluster"];
        let user = &entry(config, "users", context["user"].as_str()?)?["user"];
        let authority = cluster["certificate-authority-data"].as_str();
        let authority = authority.and_then(|text| BASE64.decode(text).ok());
        Some(Access {
            name: name.to_owned(),
            server: cluster["server"].as_str()?.to_owned(),
            authority: authority.and_then(|bytes| String::from_utf8(bytes).ok()),
            token: user["token"].as_str()?.to_owned(),
            namespace: context["namespace"].as_str().map(str::to_owned),
        })
    }
}

fn put(config: &mut Value, list: &str, new: Value) {
    if !config[list].is_array() {
        config[list] = json!([]);
    }
    let Some(all) = config[list].as_array_mut() else { return };
    all.retain(|one| one["name"] != new["name"]);
    all.push(new);
}

fn entry<'a>(config: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    config[list].as_array()?.iter().find(|one| one["name"] == name)
}

pub(crate) fn contexts(config: &Value) -> Vec<Context> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = config["contexts"].as_array().map_or(&[][..], Vec::as_slice);
    let context = |one: &Value| {
        let cluster = text(&one["context"]["cluster"]);
        Context {
            name: text(&one["name"]),
            server: entry(config, "clusters", &cluster)
                .map(|found| text(&found["cluster"]["server"]))
                .unwrap_or_default(),
            user: text(&one["context"]["user"]),
            namespace: one["context"]["namespace"].as_str().unwrap_or("default").to_owned(),
            current: one["name"] == config["current-context"],
        }
    };
    all.iter().map(context).collect()
}

/// The kubeconfig without the context, and without what only it used; `None` if it has no such context.
pub(crate) fn without(mut config: Value, name: &str) -> Option<Value> {
    entry(&config, "contexts", name)?;
    let contexts = config["contexts"].as_array_mut()?;
    contexts.retain(|one| one["name"] != name);
    let used: Vec<(Value, Value)> = contexts
        .iter()
        .map(|one| (one["context"]["cluster"].clone(), one["context"]["user"].clone()))
        .collect();
    for list in LISTS {
        let Some(all) = config[list].as_array_mut() else { continue };
        all.retain(|one| match list {
            "clusters" => used.iter().any(|(cluster, _)| *cluster == one["name"]),
            "users" => used.iter().any(|(_, user)| *user == one["name"]),
            _ => true,
        });
    }
    if config["current-context"] == name {
        config["current-context"] = "".into();
    }
    Some(config)
}

/// Whether a text is a token, whole or damaged, rather than a kubeconfig. Nobody may print such a text.
pub(crate) fn is_token(text: &str) -> bool {
    let text = text.trim_ascii();
    Token::parse(text).is_ok() || text.starts_with("tombolo_") || is_one_word(text)
}

/// Tokens of other issuers are one long word.
pub(crate) fn is_one_word(text: &str) -> bool {
    let text = text.trim_ascii();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~+/=".contains(&byte);
    text.len() >= 16 && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(name: &str) -> Access {
        Access {
            name: name.to_owned(),
            server: "https://10.0.0.1:7070".to_owned(),
            authority: Some("PEM".to_owned()),
            token: "tombolo_1".to_owned(),
            namespace: Some("shop".to_owned()),
        }
    }

    fn names(config: &Value) -> Vec<String> {
        let all = contexts(config).into_iter();
        all.map(|one| format!("{}{}", one.name, if one.current { "*" } else { "" })).collect()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let config = access("alice").alone();
        assert_eq!(Access::current(&config), Some(access("alice")));
    }

    #[test]
    fn a_login_keeps_the_others_and_replaces_its_own() {
        let config = access("bob").within(access("alice").alone());
        assert_eq!(names(&config), ["alice", "bob*"]);
        let config = access("alice").within(config);
        assert_eq!(names(&config), ["bob", "alice*"]);
        assert_eq!(config["users"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn a_logout_takes_its_token_with_it_and_nothing_that_others_use() {
        let mut config = access("bob").within(access("alice").alone());
        config["contexts"][0]["context"]["cluster"] = "bob".into();
        let config = without(config, "bob").expect("it is there");
        assert_eq!(names(&config), ["alice"]);
        assert_eq!(config["users"].as_array().map(Vec::len), Some(1));
        assert_eq!(config["clusters"][0]["name"], "bob", "alice goes there too");
        assert_eq!(config["current-context"], "");
        assert!(without(config, "nobody").is_none());
    }

    #[test]
    fn a_token_is_told_from_a_kubeconfig() {
        let token = Token::from_bytes([7; 32]).reveal();
        assert!(is_token(&token) && is_token(&format!(" {token}\n")) && is_token(&token[..30]));
        assert!(is_token("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln"));
        assert!(!is_token("apiVersion: v1\nkind: Config\n") && !is_token("") && !is_token("{}"));
    }
}
