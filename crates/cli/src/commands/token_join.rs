//! Join tokens: the right of one machine to join one site. Part of `tombolo token`. The secret is
//! made here and goes into the join file; only its hash is sent.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tombolo_agent::issue::join_token;
use tombolo_agent::{JoinFile, Lighthouse};
use tombolo_identity::{Token, joining::TOKEN_LIFE_MAX};
use tombolo_model::jointoken::StandsFor;

use super::{
    selection::{self, CHUNK_SIZE},
    token::{self, new_private_file},
};
use crate::{
    args::Globals,
    catalogue,
    connection::{Connection, JSON, Query},
    failure::{Exit, Failure},
    moment,
    output::{self, note},
    shell::Shell,
};

pub(super) struct Wanted<'a> {
    pub(super) site: &'a str,
    pub(super) stands_for: StandsFor,
    pub(super) ttl: Duration,
    pub(super) addresses: &'a [String],
    /// Kubeconfigs of their administrators.
    pub(super) lighthouses: &'a [PathBuf],
}

pub(super) async fn create(
    shell: &mut Shell,
    wanted: &Wanted<'_>,
    out: Option<&Path>,
) -> Result<Exit, Failure> {
    if wanted.ttl.is_zero() {
        return Err(Failure::usage("--ttl: a join token must be good for some time, such as 10m"));
    }
    if wanted.ttl > TOKEN_LIFE_MAX {
        return Err(Failure::usage("--ttl: a join token is good for an hour at most"));
    }
    let token = Token::generate().map_err(|error| Failure::failed(error.to_string()))?;
    let connection = shell.connect().await?;
    let expires = moment::now()
        .checked_add(wanted.ttl)
        .map_err(|error| Failure::usage(format!("--ttl: {error}")))?;
    let mut join_file = join_file(&connection, wanted, &token, expires)?;
    for kubeconfig in wanted.lighthouses {
        join_file.lighthouses.push(lighthouse(shell, kubeconfig, wanted.site).await?);
    }
    // The file comes first: a token that nobody could write down would be lost.
    let mut file = out.map(new_private_file).transpose()?;
    let path = catalogue::known("JoinToken").collection(None);
    if let Err(failure) = connection.post(&path, &object(&token, wanted, expires)).await {
        if let Some(out) = out {
            // Empty and of no use to anybody; failing to remove it changes nothing.
            let _ = std::fs::remove_file(out);
        }
        return Err(failure);
    }
    match (&mut file, out) {
        (Some(file), Some(out)) => {
            file.write_all(join_file.to_text().as_bytes())
                .and_then(|()| file.sync_all())
                .map_err(|error| Failure::file(out, &error))?;
            let out = out.display();
            note(&format!("wrote {out}; on the machine: tombolo agent --join-file {out}"));
        }
        (_, _) => {
            shell.out.text(&join_file.to_text())?;
            shell.out.flush()?;
            note("keep it safe: whoever has it can join, once, until it expires");
        }
    }
    Ok(Exit::Ok)
}

fn join_file(
    connection: &Connection,
    wanted: &Wanted<'_>,
    token: &Token,
    expires: Timestamp,
) -> Result<JoinFile, Failure> {
    let authority = authority(connection)?;
    let addresses = match wanted.addresses {
        [] => vec![connection.server.trim_end_matches('/').to_owned()],
        given => given.to_vec(),
    };
    let file = JoinFile {
        addresses,
        authority,
        token: token.reveal(),
        site: wanted.site.to_owned(),
        expires: expires.to_string(),
        lighthouses: Vec::new(),
    };
    JoinFile::parse(&file.to_text()).map_err(|problem| {
        Failure::usage(problem).hint("--address https://HOST:PORT says how machines reach it")
    })
}

/// The machine asks with a token of its own, which may look and nothing else.
async fn lighthouse(shell: &Shell, kubeconfig: &Path, site: &str) -> Result<Lighthouse, Failure> {
    let globals =
        Globals { kubeconfig: Some(kubeconfig.to_owned()), context: None, ..shell.globals.clone() };
    let connection = Connection::open(&globals).await?;
    let token = token::guest(&connection, &format!("site-{site}")).await?;
    Ok(Lighthouse {
        address: connection.server.trim_end_matches('/').to_owned(),
        authority: authority(&connection)?,
        token: token.reveal(),
    })
}

fn authority(connection: &Connection) -> Result<String, Failure> {
    let authority = connection.authority.as_ref().ok_or_else(|| {
        Failure::failed("the kubeconfig names no certificate authority to pin")
            .hint("use the kubeconfig that `tombolo up` wrote")
    })?;
    Ok(pem(authority))
}

/// The JoinToken as it is sent.
fn object(token: &Token, wanted: &Wanted<'_>, expires: Timestamp) -> Value {
    json!(join_token(token, wanted.site, wanted.stands_for, expires))
}

/// The text form of a certificate.
pub(super) fn pem(der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap_or("")).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

pub(super) async fn listed(connection: &Connection) -> Result<Vec<Value>, Failure> {
    let tokens = catalogue::known("JoinToken");
    let path = tokens.collection(None);
    let list = selection::list(connection, &path, &Query::default(), JSON, CHUNK_SIZE).await?;
    Ok(selection::items(&tokens, list))
}

/// In the columns of `tombolo token ls`.
pub(super) fn row(token: &Value, now: Timestamp) -> Vec<String> {
    let expires = token["spec"]["expires"].as_str().unwrap_or_default();
    let ended = expires.parse::<Timestamp>().is_ok_and(|at| at <= now);
    let end = match (token["status"]["usedBy"].as_str(), ended) {
        (Some(node), _) => format!("used by {}", output::harmless(node)),
        (None, true) => "expired".to_owned(),
        (None, false) => expires.to_owned(),
    };
    vec![
        output::harmless(selection::name_of(token)),
        format!("site {}", output::harmless(token["spec"]["site"].as_str().unwrap_or_default())),
        "join".to_owned(),
        "<none>".to_owned(),
        end,
        moment::age(token["metadata"]["creationTimestamp"].as_str().unwrap_or_default(), now),
    ]
}

pub(super) fn value(token: &Value) -> Value {
    json!({
        "id": selection::name_of(token), "role": "join", "site": token["spec"]["site"],
        "created": token["metadata"]["creationTimestamp"], "expires": token["spec"]["expires"],
        "usedBy": token["status"]["usedBy"],
    })
}

pub(super) fn is_name(name: &str) -> bool {
    name.strip_prefix("join-")
        .is_some_and(|hash| hash.len() == 20 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

pub(super) async fn remove(
    shell: &mut Shell,
    connection: &Connection,
    name: &str,
    confirmed: impl Fn(&str) -> bool,
) -> Result<Exit, Failure> {
    let path = catalogue::known("JoinToken").object("", name);
    connection.get(&path).await?;
    if !confirmed(&format!("Remove {name}?")) {
        return Err(Failure::failed("nothing was removed"));
    }
    connection.delete(&path, &json!({})).await?;
    shell.out.line(&format!("{name} removed"))?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_north() -> Value {
        let wanted = Wanted {
            site: "north",
            stands_for: StandsFor::Node,
            ttl: Duration::from_secs(600),
            addresses: &[],
            lighthouses: &[],
        };
        object(&Token::from_bytes([7; 32]), &wanted, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_join_token_is_known_by_its_name() {
        let object = of_north();
        assert!(is_name(object["metadata"]["name"].as_str().expect("a name")));
        assert!(!is_name("join-me"));
    }

    #[test]
    fn a_token_is_listed_as_open_used_or_expired() {
        let end = |status: Value, now: i64| {
            let mut token = of_north();
            token["status"] = status;
            let now = Timestamp::from_second(now).expect("a valid time");
            row(&token, now)[4].clone()
        };
        assert_eq!(end(json!({}), -1), "1970-01-01T00:00:00Z");
        assert_eq!(end(json!({}), 0), "expired");
        assert_eq!(end(json!({"usedBy": "n1"}), 0), "used by n1");
    }
}
