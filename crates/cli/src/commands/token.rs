//! `tombolo token`: access tokens. The secret is made here and only its hash is sent.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tombolo_identity::{
    AccessToken, Role, Token,
    joining::TOKEN_LIFE_MAX,
    token::{ACCESS_TOKEN_TYPE, SYSTEM_NAMESPACE},
};
use tombolo_model::jointoken::StandsFor;

use super::selection::{self, CHUNK_SIZE};
use super::token_join;
use crate::{
    args::{RoleArg, TokenCommand},
    catalogue,
    connection::{Connection, JSON, Query, no_namespace},
    failure::{Exit, Failure},
    kubeconfig::Access,
    moment,
    output::{
        self, Format, note,
        object::{json as to_json, yaml},
        table::Grid,
    },
    shell::Shell,
};

pub(super) async fn run(shell: &mut Shell, command: &TokenCommand) -> Result<Exit, Failure> {
    match command {
        TokenCommand::Create {
            site: Some(site),
            whole_site,
            ttl,
            addresses,
            lighthouses,
            out,
            ..
        } => {
            let stands_for = if *whole_site { StandsFor::Site } else { StandsFor::Node };
            let ttl = ttl.unwrap_or(TOKEN_LIFE_MAX);
            let wanted = token_join::Wanted { site, stands_for, ttl, addresses, lighthouses };
            let out = out.as_deref().filter(|out| *out != Path::new("-"));
            token_join::create(shell, &wanted, out).await
        }
        TokenCommand::Create {
            name,
            role,
            for_namespace,
            expires_in,
            addresses,
            token_only,
            out,
            site: None,
            whole_site,
            ttl,
            lighthouses,
        } => {
            for_sites_only(*whole_site, *ttl, lighthouses)?;
            let wanted = Wanted {
                user: name.as_deref().unwrap_or_default(),
                role: role_of(role.unwrap_or(RoleArg::Guest)),
                namespace: for_namespace.as_deref(),
                expires_in: *expires_in,
            };
            let form = match (token_only, addresses.as_slice()) {
                (true, _) => Form::Token,
                (false, []) => Form::Kubeconfig { address: None },
                (false, [address]) => Form::Kubeconfig { address: Some(address) },
                (false, _) => return Err(Failure::usage("a kubeconfig has one --address")),
            };
            create(shell, &wanted, &form, out.as_deref()).await
        }
        TokenCommand::Ls { output } => list(shell, *output).await,
        TokenCommand::Revoke { name, yes } => match yes {
            true => revoke(shell, name, |_| true).await,
            false if !output::somebody_is_there() => {
                Err(Failure::usage("there is no terminal to ask on")
                    .hint("--yes goes ahead without asking"))
            }
            false => revoke(shell, name, output::confirmed).await,
        },
    }
}

/// What is said of machines says nothing of a person. Asked here, because clap lets go of `requires`
/// where the required argument conflicts with another one that was given.
fn for_sites_only(
    whole_site: bool,
    ttl: Option<Duration>,
    lighthouses: &[PathBuf],
) -> Result<(), Failure> {
    let wrong = |option: &str| Err(Failure::usage(format!("{option} goes with --site")));
    match () {
        () if ttl.is_some() => Err(Failure::usage("--ttl goes with --site")
            .hint("--expires-in says how long the token of a person is good")),
        () if whole_site => wrong("--whole-site"),
        () if !lighthouses.is_empty() => wrong("--lighthouse"),
        () => Ok(()),
    }
}

struct Wanted<'a> {
    user: &'a str,
    role: &'a str,
    namespace: Option<&'a str>,
    expires_in: Option<Duration>,
}

/// In what the new token is handed over.
enum Form<'a> {
    Token,
    /// Its server is reached here, or where we reach it.
    Kubeconfig {
        address: Option<&'a str>,
    },
}

fn role_of(role: RoleArg) -> &'static str {
    match role {
        RoleArg::Guest => "guest",
        RoleArg::User => "user",
        RoleArg::Manager => "manager",
        RoleArg::Admin => "admin",
    }
}

async fn create(
    shell: &mut Shell,
    wanted: &Wanted<'_>,
    form: &Form<'_>,
    out: Option<&Path>,
) -> Result<Exit, Failure> {
    let token = Token::generate().map_err(|error| Failure::failed(error.to_string()))?;
    let connection = shell.connect().await?;
    let record = record(&token, wanted, &connection.namespace, moment::now())?;
    if let Some(namespace) = &record.namespace {
        let path = catalogue::known("Namespace").object("", namespace);
        if connection.find(&path).await?.is_none() {
            return Err(no_namespace(namespace));
        }
    }
    let text = match form {
        Form::Token => format!("{}\n", token.reveal()),
        Form::Kubeconfig { address } => kubeconfig_of(&connection, &record, &token, *address)?,
    };
    let out = match (form, out) {
        (_, Some(out)) => Some(out.to_owned()).filter(|out| out != Path::new("-")),
        (Form::Token, None) => None,
        (Form::Kubeconfig { .. }, None) => Some(file_of(wanted.user)?),
    };
    // The file comes first: a token that nobody could write down would be lost.
    let mut file = out.as_deref().map(new_private_file).transpose()?;
    let path = catalogue::known("Secret").collection(Some(SYSTEM_NAMESPACE));
    if let Err(failure) = connection.post(&path, &secret(&token, &record)).await {
        if let Some(out) = out {
            // Empty and of no use to anybody; failing to remove it changes nothing.
            let _ = fs::remove_file(out);
        }
        return Err(failure);
    }
    let (Some(file), Some(out)) = (&mut file, out) else {
        shell.out.text(&text)?;
        shell.out.flush()?;
        note("keep it: it is shown only this once");
        return Ok(Exit::Ok);
    };
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|error| Failure::file(&out, &error))?;
    let (user, out) = (wanted.user, out.display());
    match form {
        Form::Token => note(&format!("wrote the token of {user} to {out}")),
        Form::Kubeconfig { .. } => {
            note(&format!("wrote {out}; hand it to {user} like a password"));
            note(&format!("{user} signs in with: tombolo login --token-file {out}"));
        }
    }
    Ok(Exit::Ok)
}

/// With everything in it that its owner needs.
fn kubeconfig_of(
    connection: &Connection,
    record: &AccessToken,
    token: &Token,
    address: Option<&str>,
) -> Result<String, Failure> {
    let server = address.unwrap_or(&connection.server).trim_end_matches('/').to_owned();
    if !server.starts_with("https://") && address.is_some() {
        return Err(Failure::usage(format!("--address {server} does not begin with https://"))
            .hint("a token is only sent over TLS"));
    }
    let host = server.split_once("://").map_or(server.as_str(), |(_, rest)| rest).to_owned();
    if address.is_none() && ["127.", "localhost", "[::1]"].iter().any(|it| host.starts_with(it)) {
        note(&format!(
            "it points to {server}, which works on this machine only; --address gives another"
        ));
    }
    let access = Access {
        name: format!("{}@{host}", record.user),
        server,
        authority: connection.authority.as_deref().map(token_join::pem),
        token: token.reveal(),
        namespace: record.namespace.clone(),
    };
    yaml(&access.alone())
}

/// Named after its owner, whose name may have characters that mean something else in a path.
fn file_of(user: &str) -> Result<PathBuf, Failure> {
    match user.contains('/') || user.starts_with('.') || user.is_empty() {
        true => Err(Failure::usage(format!("there is no file for the name {user:?}"))
            .hint("-o FILE says where to write")),
        false => Ok(PathBuf::from(format!("{user}.kubeconfig"))),
    }
}

fn record(
    token: &Token,
    wanted: &Wanted<'_>,
    default_namespace: &str,
    now: Timestamp,
) -> Result<AccessToken, Failure> {
    let wrong = |error: tombolo_identity::Error| Failure::usage(error.to_string());
    let role = Role::parse(wanted.role).ok_or_else(|| {
        Failure::usage(format!("there is no role `{}`", wanted.role))
            .hint("the roles are guest, user, manager and admin")
    })?;
    let namespace = match (&role, wanted.namespace) {
        (Role::User, None) => Some(default_namespace.to_owned()),
        (_, namespace) => namespace.map(str::to_owned),
    };
    let expires = match wanted.expires_in {
        None => None,
        Some(duration) => Some(
            now.checked_add(duration)
                .map_err(|error| Failure::usage(format!("--expires-in: {error}")))?,
        ),
    };
    AccessToken::new(token, wanted.user, role, namespace, expires).map_err(wrong)
}

/// A new token of a guest, for a program that only looks.
pub(super) async fn guest(connection: &Connection, user: &str) -> Result<Token, Failure> {
    let token = Token::generate().map_err(|error| Failure::failed(error.to_string()))?;
    let wanted =
        Wanted { user, role: Role::Guest.name().as_str(), namespace: None, expires_in: None };
    let record = record(&token, &wanted, "", moment::now())?;
    let path = catalogue::known("Secret").collection(Some(SYSTEM_NAMESPACE));
    connection.post(&path, &secret(&token, &record)).await?;
    Ok(token)
}

fn secret(token: &Token, record: &AccessToken) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": ACCESS_TOKEN_TYPE,
        "metadata": {"name": token.hash().secret_name(), "namespace": SYSTEM_NAMESPACE},
        "data": record.to_data(),
    })
}

/// Fails if the file exists: a token must not end up in a file that others may read.
pub(super) fn new_private_file(path: &Path) -> Result<fs::File, Failure> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
        Failure::file(path, &error)
            .hint("a token is written to a new file only: name another, or remove this one")
    })
}

/// A token as it is listed: everything but its secret.
struct Listed {
    id: String,
    created: String,
    record: AccessToken,
}

async fn listed(connection: &Connection) -> Result<Vec<Listed>, Failure> {
    let secrets = catalogue::known("Secret");
    let path = secrets.collection(Some(SYSTEM_NAMESPACE));
    let list = selection::list(connection, &path, &Query::default(), JSON, CHUNK_SIZE).await?;
    Ok(tokens_in(&selection::items(&secrets, list)))
}

/// Secrets that are no tokens, or cannot be read as such, open no door and are not listed.
fn tokens_in(secrets: &[Value]) -> Vec<Listed> {
    let token = |secret: &Value| {
        let data: BTreeMap<String, String> = serde_json::from_value(secret["data"].clone()).ok()?;
        Some(Listed {
            id: selection::name_of(secret).to_owned(),
            created: secret["metadata"]["creationTimestamp"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            record: AccessToken::from_data(&data).ok()?,
        })
    };
    let is_token = |secret: &&Value| secret["type"] == ACCESS_TOKEN_TYPE;
    secrets.iter().filter(is_token).filter_map(token).collect()
}

async fn list(shell: &mut Shell, format: Format) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    let joins = token_join::listed(&connection).await?;
    let tokens = match listed(&connection).await {
        // A manager may see the tokens of machines and not those of people.
        Err(failure) if failure.exit == Exit::Denied => {
            note("only an administrator sees the tokens of people");
            Vec::new()
        }
        tokens => tokens?,
    };
    let now = moment::now();
    let text = match format {
        Format::Table | Format::Wide if tokens.is_empty() && joins.is_empty() => {
            note("no tokens besides the first administrator's");
            String::new()
        }
        Format::Table | Format::Wide => {
            let mut grid = grid(&tokens, now);
            grid.rows.extend(joins.iter().map(|join| token_join::row(join, now)));
            grid.to_text()
        }
        Format::Name => {
            let ids = tokens.iter().map(|token| token.id.as_str());
            let ids = ids.chain(joins.iter().map(selection::name_of));
            ids.map(|id| format!("{id}\n")).collect()
        }
        Format::Json => to_json(&all_values(&tokens, &joins))?,
        Format::Yaml => yaml(&all_values(&tokens, &joins))?,
    };
    shell.out.text(&text)?;
    Ok(Exit::Ok)
}

fn all_values(tokens: &[Listed], joins: &[Value]) -> Value {
    let mut all = values(tokens).as_array().cloned().unwrap_or_default();
    all.extend(joins.iter().map(token_join::value));
    Value::Array(all)
}

fn values(tokens: &[Listed]) -> Value {
    let value = |token: &Listed| {
        let record = &token.record;
        json!({
            "id": token.id, "user": record.user, "role": record.role.to_string(),
            "namespace": record.namespace, "created": token.created,
            "expires": record.expires.map(|at| at.to_string()),
        })
    };
    tokens.iter().map(value).collect()
}

fn grid(tokens: &[Listed], now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["ID", "USER", "ROLE", "NAMESPACE", "EXPIRES", "AGE"]);
    for token in tokens {
        let record = &token.record;
        let expires = match record.expires {
            None => "never".to_owned(),
            Some(at) if at <= now => "expired".to_owned(),
            Some(at) => at.to_string(),
        };
        grid.rows.push(vec![
            output::harmless(&token.id),
            output::harmless(&record.user),
            record.role.to_string(),
            record.namespace.clone().unwrap_or_else(|| "<all>".to_owned()),
            expires,
            moment::age(&token.created, now),
        ]);
    }
    grid
}

async fn revoke(
    shell: &mut Shell,
    name: &str,
    confirmed: impl Fn(&str) -> bool,
) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    if token_join::is_name(name) {
        return token_join::remove(shell, &connection, name, confirmed).await;
    }
    let doomed: Vec<Listed> = listed(&connection)
        .await?
        .into_iter()
        .filter(|token| token.id == name || token.record.user == name)
        .collect();
    if doomed.is_empty() {
        return Err(Failure::new(Exit::NotFound, format!("there is no token of `{name}`"))
            .hint("`tombolo token ls` lists them; the first administrator's is a file"));
    }
    let ids: Vec<&str> = doomed.iter().map(|token| token.id.as_str()).collect();
    if !confirmed(&format!("Revoke {} of {name}?", ids.join(", "))) {
        return Err(Failure::failed("nothing was revoked"));
    }
    for token in &doomed {
        let path = catalogue::known("Secret").object(SYSTEM_NAMESPACE, &token.id);
        connection.delete(&path, &json!({})).await?;
        shell.out.line(&format!("{} of {} revoked", token.id, token.record.user))?;
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn wanted<'a>(role: &'a str, namespace: Option<&'a str>) -> Wanted<'a> {
        Wanted { user: "alice", role, namespace, expires_in: Some(Duration::from_secs(3600)) }
    }

    #[test]
    fn what_is_sent_is_not_the_token() {
        let token = Token::from_bytes([7; 32]);
        let record = record(&token, &wanted("user", None), "shop", Timestamp::UNIX_EPOCH);
        let secret = secret(&token, &record.expect("valid"));
        assert!(!secret.to_string().contains(&token.reveal()));
        assert!(!secret.to_string().contains(&"07".repeat(32)));
        let tokens = tokens_in(&[secret, json!({"type": "Opaque"})]);
        let now = Timestamp::from_second(60).expect("a valid time");
        expect![[r#"
            ID                            USER    ROLE   NAMESPACE   EXPIRES                AGE
            access-4bb06f8e4e3a7715d201   alice   user   shop        1970-01-01T01:00:00Z   <unknown>
        "#]].assert_eq(&grid(&tokens, now).to_text());
    }

    #[track_caller]
    fn check(role: &str, namespace: Option<&str>, expected: Result<Option<&str>, Exit>) {
        let token = Token::from_bytes([7; 32]);
        let record = record(&token, &wanted(role, namespace), "shop", Timestamp::UNIX_EPOCH);
        let found = record.map(|record| record.namespace).map_err(|failure| failure.exit);
        assert_eq!(found, expected.map(|namespace| namespace.map(str::to_owned)));
    }

    #[test]
    fn a_user_has_a_namespace_and_the_others_have_none() {
        check("user", None, Ok(Some("shop")));
        check("user", Some("lab"), Ok(Some("lab")));
        check("admin", None, Ok(None));
        check("admin", Some("lab"), Err(Exit::Usage));
        check("root", None, Err(Exit::Usage));
    }

    #[test]
    fn the_file_is_new_and_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("alice.token");
        let file = new_private_file(&path).expect("new");
        let mode = file.metadata().expect("readable").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(new_private_file(&path).is_err());
    }
}
