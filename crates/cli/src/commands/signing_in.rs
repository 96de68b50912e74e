//! `tombolo login`, `logout` and `whoami`: with which token people come in, and who that makes them. A token
//! comes from a file or from standard input, never from the command line, which others can see.

use std::{
    fs,
    io::{self, IsTerminal as _, Read as _, Write as _},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tombolo_identity::{EXTRA_NAMESPACE, ROLE_PREFIX};

use super::{config, token::new_private_file};
use crate::{
    args::{Globals, LoginArgs, LogoutArgs, WhoamiArgs},
    connection::{Connection, kubeconfig_path},
    failure::{Exit, Failure},
    kubeconfig::{self, Access},
    output::{
        Format, harmless, note,
        object::{json as to_json, yaml},
    },
    places,
    shell::Shell,
    terminal::Unseen,
};

/// Of whoever asks; every server that speaks the protocol answers it.
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// A kubeconfig is smaller, and a token far smaller.
const BYTES_MAX: u64 = 1 << 20;

/// Whom the server takes us for.
#[derive(Debug, PartialEq, Eq)]
struct Me {
    user: String,
    groups: Vec<String>,
    /// The only one that this person may change something in.
    namespace: Option<String>,
}

pub(super) async fn login(shell: &mut Shell, args: &LoginArgs) -> Result<Exit, Failure> {
    let target = target(&shell.globals)?;
    let known = known(&shell.globals);
    let given = given(args)?;
    let mut access = access(args, given.trim_ascii(), known)?;
    // Asked before anything is written: a token that opens no door is not kept.
    let me = ask(&access, &shell.globals).await?;
    let namespace = me.namespace.clone();
    access.namespace = shell.globals.namespace.clone().or(namespace).or(access.namespace);
    access.name = match &shell.globals.context {
        Some(name) => name.clone(),
        None => format!("{}@{}", me.user, host(&access.server)),
    };
    let before = match target.exists() {
        true => config::read(&target)?,
        false => json!({"apiVersion": "v1", "kind": "Config"}),
    };
    write(&target, &access.within(before))?;
    shell.out.line(&format!("you are {}, at {}", me.in_words(), harmless(&access.server)))?;
    note(&format!("context {} is the current one in {}", access.name, target.display()));
    Ok(Exit::Ok)
}

pub(super) fn logout(shell: &mut Shell, args: &LogoutArgs) -> Result<Exit, Failure> {
    let path = target(&shell.globals)?;
    let nobody = || {
        Failure::new(Exit::NotFound, "nobody is logged in")
            .hint("`tombolo whoami` says who the server takes you for, and by which file")
    };
    if !path.exists() {
        return Err(nobody());
    }
    if args.all {
        fs::remove_file(&path).map_err(|error| Failure::file(&path, &error))?;
        shell.out.line(&format!("removed {}", path.display()))?;
        return Ok(Exit::Ok);
    }
    let before = config::read(&path)?;
    let current = before["current-context"].as_str().filter(|name| !name.is_empty());
    let name = shell.globals.context.as_deref().or(current).ok_or_else(nobody)?.to_owned();
    let after =
        kubeconfig::without(before, &name).ok_or_else(|| config::no_such_context(&name, &path))?;
    let left = kubeconfig::contexts(&after);
    match left.is_empty() {
        true => fs::remove_file(&path).map_err(|error| Failure::file(&path, &error))?,
        false => write(&path, &after)?,
    }
    shell.out.line(&format!("{name}: logged out"))?;
    note("the token itself is good until it expires or an admin revokes it");
    if !left.is_empty() && left.iter().all(|one| !one.current) {
        note("choose another context with `tombolo config use NAME`");
    }
    Ok(Exit::Ok)
}

pub(super) async fn whoami(shell: &mut Shell, args: &WhoamiArgs) -> Result<Exit, Failure> {
    let path = kubeconfig_path(&shell.globals)?;
    let connection = shell.connect().await?;
    let me = review(&connection).await?;
    let value = json!({
        "user": me.user, "groups": me.groups, "role": me.role(), "server": connection.server,
        "namespace": connection.namespace, "kubeconfig": path.display().to_string(),
    });
    let text = match args.output {
        Format::Json => to_json(&value)?,
        Format::Yaml => yaml(&value)?,
        Format::Name => format!("{}\n", harmless(&me.user)),
        Format::Table | Format::Wide => format!(
            "{}\nserver      {}\nnamespace   {}\nkubeconfig  {}\n",
            me.in_words(),
            harmless(&connection.server),
            harmless(&connection.namespace),
            path.display(),
        ),
    };
    shell.out.text(&text)?;
    Ok(Exit::Ok)
}

impl Me {
    fn role(&self) -> Option<&str> {
        self.groups.iter().find_map(|group| group.strip_prefix(ROLE_PREFIX))
    }

    fn in_words(&self) -> String {
        let user = harmless(&self.user);
        match (self.role(), &self.namespace) {
            (Some(role), Some(namespace)) => format!("{user}, {role} of namespace {namespace}"),
            (Some(role), None) => format!("{user}, {role}"),
            (None, _) => user,
        }
    }
}

async fn ask(access: &Access, globals: &Globals) -> Result<Me, Failure> {
    let connection = Connection::of(access.alone(), globals).await?;
    review(&connection).await.map_err(|failure| match failure.exit {
        Exit::Denied => {
            let message =
                format!("{} does not take this token: {}", access.server, failure.message);
            Failure::new(Exit::Denied, message)
                .hint("an admin makes one with `tombolo token create`")
        }
        Exit::Unreachable if failure.message.contains("certificate") => {
            failure.hint("--ca FILE names the authority of the server (its ca.crt)")
        }
        Exit::Unreachable => failure.hint("--server https://HOST:PORT says where it is"),
        _ => failure,
    })
}

async fn review(connection: &Connection) -> Result<Me, Failure> {
    let question = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = connection.post(REVIEWS, &question).await?;
    let info = &answer["status"]["userInfo"];
    let groups = info["groups"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(Me {
        user: info["username"].as_str().unwrap_or_default().to_owned(),
        groups: groups.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        namespace: info["extra"][EXTRA_NAMESPACE][0].as_str().map(str::to_owned),
    })
}

/// From the file that was named, from a pipe, or typed without being seen.
fn given(args: &LoginArgs) -> Result<String, Failure> {
    let read = |from: &mut dyn io::Read, name: &str| {
        let mut text = String::new();
        let wrong = |why: String| Failure::failed(format!("{name}: {why}"));
        from.take(BYTES_MAX).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
        match text.trim_ascii().is_empty() {
            true => Err(wrong("there is no token in it".to_owned())),
            false => Ok(text),
        }
    };
    match &args.token_file {
        Some(path) if path != Path::new("-") => {
            let mut file = fs::File::open(path).map_err(|error| Failure::file(path, &error))?;
            read(&mut file, &path.display().to_string())
        }
        None if io::stdin().is_terminal() => {
            let _ = write!(io::stderr(), "Token (it is not shown): ");
            let unseen = Unseen::enter().map_err(|error| Failure::failed(error.to_string()))?;
            let mut line = String::new();
            let typed = io::stdin().read_line(&mut line);
            drop(unseen);
            note("");
            typed.map_err(|error| Failure::failed(format!("cannot read a token: {error}")))?;
            Ok(line)
        }
        Some(_) | None => read(&mut io::stdin().lock(), "standard input"),
    }
}

/// What was given is a kubeconfig of `token create`, or a bare token.
fn access(args: &LoginArgs, given: &str, known: Option<Access>) -> Result<Access, Failure> {
    let authority = match &args.ca {
        Some(path) => Some(fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?),
        None => None,
    };
    let from_file = match kubeconfig::is_token(given) {
        true => None,
        false => Some(read_kubeconfig(given)?),
    };
    let token = from_file.as_ref().map_or_else(|| given.to_owned(), |access| access.token.clone());
    if let (None, Err(malformed)) = (&from_file, tombolo_identity::Token::parse(&token))
        && token.starts_with("tombolo_")
    {
        return Err(Failure::usage(malformed.to_string()));
    }
    // The server of a kubeconfig that is there already is taken where none is named.
    let base = from_file.or(known);
    let server = args.server.clone().or_else(|| base.as_ref().map(|base| base.server.clone()));
    let server = server.ok_or_else(|| {
        Failure::usage("a token alone does not say where the server is")
            .hint("--server https://HOST:PORT says it")
    })?;
    let known = base.filter(|base| same_server(&base.server, &server));
    let authority = authority.or_else(|| known.and_then(|base| base.authority));
    Ok(Access { name: String::new(), server, authority, token, namespace: None })
}

fn read_kubeconfig(text: &str) -> Result<Access, Failure> {
    let wrong = || {
        Failure::usage("this is neither a token nor a kubeconfig with a token in it")
            .hint("`tombolo token create` writes a file that can be used")
    };
    let value: Value = serde_saphyr::from_str(text).map_err(|_| wrong())?;
    Access::current(&value).ok_or_else(wrong)
}

fn same_server(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

fn host(server: &str) -> &str {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// The server that the shell would talk to.
fn known(globals: &Globals) -> Option<Access> {
    let path = kubeconfig_path(globals).ok().filter(|path| path.exists())?;
    Access::current(&config::read(&path).ok()?)
}

/// Where logins are kept: in the file that was named, or in one of their own.
fn target(globals: &Globals) -> Result<PathBuf, Failure> {
    let path = globals.kubeconfig.clone().or_else(places::login_file).ok_or_else(|| {
        Failure::usage("neither HOME nor XDG_CONFIG_HOME is set, so there is no place for a login")
            .hint("name a file with --kubeconfig")
    })?;
    if fs::read_to_string(&path).is_ok_and(|text| text.starts_with(WRITTEN_BY_UP)) {
        let message =
            format!("{} is the server's own: its next start writes it anew", path.display());
        return Err(Failure::usage(message).hint("leave --kubeconfig and TOMBOLO_KUBECONFIG out"));
    }
    Ok(path)
}

/// In place of what is there, whole or not at all, and readable by its owner alone.
pub(super) fn write(path: &Path, config: &Value) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::file(path, &error);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let mut file = new_private_file(&new)?;
    let text = yaml(config)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let moved = written.and_then(|()| fs::rename(&new, path));
    moved.map_err(|error| {
        // What could not be put in place is of no use.
        let _ = fs::remove_file(&new);
        failed(error)
    })
}

/// How the kubeconfig of `tombolo up` begins.
const WRITTEN_BY_UP: &str = "# Written by tombolo at its start";
