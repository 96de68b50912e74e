//! What the server keeps of itself under its data folder; a first start makes it.
//!
//! `ca.key`, `ca.crt`, `server.key`, `server.crt`, `admin.token`, `kubeconfig`, and `secrets.key` unless
//! that lies elsewhere ([`secrets`]). `tombolo up` calls
//! [`open`] at every start: what is missing is made, what is stale is made anew, a key that exists
//! is never replaced. A key is written before what depends on it, so that a start that was cut
//! short anywhere is completed by the next. Begin reading at [`open`].

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData as _};

use crate::authority::{
    self, Authority, Facts, Issued, Reissue, Wanted, generate_key, parse_certificate, read_facts,
    reissue, server_names,
};
use crate::token::{Token, TokenHash};
use crate::{Error, Subject};

mod files;
pub mod kubeconfig;
pub mod secrets;

use files::Folder;
pub use files::write_secret;

const AUTHORITY_CERTIFICATE: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const SERVER_CERTIFICATE: &str = "server.crt";
const SERVER_KEY: &str = "server.key";
const ADMIN_TOKEN: &str = "admin.token";
const KUBECONFIG: &str = "kubeconfig";

#[derive(Clone, Debug)]
pub struct Settings {
    pub folder: PathBuf,
    /// The addresses that are really listened on, so after binding; the first goes into the
    /// kubeconfig.
    pub listen: Vec<SocketAddr>,
    /// More names under which clients reach the server.
    pub names: Vec<String>,
}

/// The server's own identity, read or made.
pub struct Home {
    pub folder: PathBuf,
    /// Shared with the API, which signs the requests of agents.
    pub authority: Arc<Authority>,
    pub server: Issued,
    pub admin: TokenHash,
    /// The address in the kubeconfig, such as `https://127.0.0.1:7070`.
    pub url: String,
    /// What was done: each a sentence for the log.
    pub notes: Vec<String>,
    /// What was found amiss and put right, or should be: each a sentence for the operator.
    pub warnings: Vec<String>,
}

/// What to do about the authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AuthorityStep {
    Make,
    /// The key is there and the certificate is not: the first start was cut short.
    Complete,
    Load,
    /// Never made up for: a new key would lock out every client that trusts the certificate.
    Refuse,
}

/// Reads the server's identity from its folder, and makes what is not there.
pub fn open(settings: &Settings, now: Timestamp) -> Result<Home, Error> {
    let mut folder = Folder::open(&settings.folder)?;
    let mut notes = Vec::new();
    let authority = open_authority(&mut folder, now, &mut notes)?;
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let names = server_names(&hostname, &settings.listen, &settings.names);
    for name in &settings.names {
        if !names.contains(&name.to_ascii_lowercase()) {
            folder.warn(format!("the name {name:?} cannot go into a certificate and is left out"));
        }
    }
    let server = open_server(&mut folder, &authority, &names, now, &mut notes)?;
    let token = open_token(&mut folder, &mut notes)?;
    let url = kubeconfig::url(&settings.listen);
    open_kubeconfig(&mut folder, &kubeconfig::render(&url, &authority, &token), &mut notes)?;
    if now < authority.facts().begins {
        folder.warn(format!(
            "the clock says {now}, which is before the authority began at {}; clients will refuse \
             the server until the clock is right",
            authority.facts().begins
        ));
    }
    Ok(Home {
        folder: settings.folder.clone(),
        authority: Arc::new(authority),
        server,
        admin: token.hash(),
        url,
        notes,
        warnings: folder.into_warnings(),
    })
}

impl Home {
    /// The admin, if this is the token of `admin.token`.
    pub fn admin(&self, token: &Token) -> Option<Subject> {
        (token.hash() == self.admin).then(Subject::first_admin)
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join(KUBECONFIG)
    }
}

/// The admin token of a data folder, for the shell when it has no kubeconfig.
pub fn read_admin_token(folder: &Path) -> Result<Token, Error> {
    let path = folder.join(ADMIN_TOKEN);
    let text = std::fs::read_to_string(&path).map_err(|source| Error::File {
        doing: "read",
        path: path.clone(),
        source,
    })?;
    Token::parse(&text)
        .map_err(|malformed| Error::Malformed { path, problem: malformed.to_string() })
}

fn authority_step(key_exists: bool, certificate_exists: bool) -> AuthorityStep {
    match (key_exists, certificate_exists) {
        (false, false) => AuthorityStep::Make,
        (true, false) => AuthorityStep::Complete,
        (true, true) => AuthorityStep::Load,
        (false, true) => AuthorityStep::Refuse,
    }
}

fn open_authority(
    folder: &mut Folder,
    now: Timestamp,
    notes: &mut Vec<String>,
) -> Result<Authority, Error> {
    let key = folder.read_secret(AUTHORITY_KEY)?;
    let certificate = folder.read(AUTHORITY_CERTIFICATE)?;
    let load_key = || parse_key(folder, AUTHORITY_KEY, key.as_deref().unwrap_or_default());
    match authority_step(key.is_some(), certificate.is_some()) {
        AuthorityStep::Make => {
            let authority = Authority::generate(now)?;
            folder.write_new(AUTHORITY_KEY, &authority.key_pem())?;
            folder.replace(AUTHORITY_CERTIFICATE, authority.certificate_pem())?;
            notes.push("made a certificate authority".into());
            Ok(authority)
        }
        AuthorityStep::Complete => {
            let authority = Authority::with_key(load_key()?, now)?;
            folder.replace(AUTHORITY_CERTIFICATE, authority.certificate_pem())?;
            notes.push("completed the certificate authority from its key".into());
            Ok(authority)
        }
        AuthorityStep::Load => {
            let authority = load_authority(folder, load_key()?, certificate.unwrap_or_default())?;
            match authority.facts().expires {
                expired if expired <= now => Err(Error::AuthorityExpired {
                    path: folder.path(AUTHORITY_CERTIFICATE),
                    expired,
                }),
                _ => Ok(authority),
            }
        }
        AuthorityStep::Refuse => Err(Error::KeyMissing {
            certificate: folder.path(AUTHORITY_CERTIFICATE),
            key: folder.path(AUTHORITY_KEY),
        }),
    }
}

fn load_authority(folder: &Folder, key: KeyPair, certificate: String) -> Result<Authority, Error> {
    let public_key = key.subject_public_key_info();
    let authority = Authority::load(&certificate, key).map_err(|error| Error::Malformed {
        path: folder.path(AUTHORITY_CERTIFICATE),
        problem: error.to_string(),
    })?;
    if authority.facts().public_key != public_key {
        return Err(Error::Mismatch {
            certificate: folder.path(AUTHORITY_CERTIFICATE),
            key: folder.path(AUTHORITY_KEY),
        });
    }
    Ok(authority)
}

fn open_server(
    folder: &mut Folder,
    authority: &Authority,
    names: &BTreeSet<String>,
    now: Timestamp,
    notes: &mut Vec<String>,
) -> Result<Issued, Error> {
    let key = match folder.read_secret(SERVER_KEY)? {
        Some(pem) => parse_key(folder, SERVER_KEY, &pem)?,
        None => {
            let key = generate_key()?;
            folder.write_new(SERVER_KEY, &key.serialize_pem())?;
            key
        }
    };
    let found = folder.read(SERVER_CERTIFICATE)?;
    // An unreadable certificate is as good as none: we can always make another.
    let facts: Option<Facts> = found
        .as_deref()
        .and_then(|pem| parse_certificate(pem).ok())
        .and_then(|certificate| read_facts(&certificate).ok());
    let public_key = key.subject_public_key_info();
    let wanted = Wanted { names, authority: authority.facts(), public_key: &public_key };
    let certificate_pem = match (reissue(facts.as_ref(), &wanted, now), found) {
        (None, Some(pem)) => pem,
        (None, None) => authority.server(&key, names, now)?,
        (Some(reason), _) => {
            let pem = authority.server(&key, names, now)?;
            folder.replace(SERVER_CERTIFICATE, &pem)?;
            notes.push(format!("made a server certificate: {reason}"));
            pem
        }
    };
    Ok(Issued { certificate_pem, key_pem: key.serialize_pem() })
}

/// To change the token, a person deletes the file and starts again.
fn open_token(folder: &mut Folder, notes: &mut Vec<String>) -> Result<Token, Error> {
    match folder.read_secret(ADMIN_TOKEN)? {
        Some(text) => Token::parse(&text).map_err(|malformed| Error::Malformed {
            path: folder.path(ADMIN_TOKEN),
            problem: format!("{malformed}; delete the file to have a new token made"),
        }),
        None => {
            let token = Token::generate()?;
            folder.write_new(ADMIN_TOKEN, &format!("{}\n", token.reveal()))?;
            notes.push("made an admin token".into());
            Ok(token)
        }
    }
}

/// The file is ours alone and says so; any difference means that the address, the authority or
/// the token changed.
fn open_kubeconfig(
    folder: &mut Folder,
    wanted: &str,
    notes: &mut Vec<String>,
) -> Result<(), Error> {
    if folder.read_secret(KUBECONFIG)?.as_deref() == Some(wanted) {
        return Ok(());
    }
    folder.replace(KUBECONFIG, wanted)?;
    notes.push("wrote the kubeconfig".into());
    Ok(())
}

fn parse_key(folder: &Folder, name: &str, pem: &str) -> Result<KeyPair, Error> {
    KeyPair::from_pem(pem).map_err(|error| Error::Malformed {
        path: folder.path(name),
        problem: format!("it holds no private key that can be used ({error})"),
    })
}

impl fmt::Display for authority::Reissue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Reissue::Missing => "there was none",
            Reissue::OtherAuthority => "the old one was signed by another authority",
            Reissue::OtherKey => "the old one belonged to another key",
            Reissue::NamesChanged => "the names of the server changed",
            Reissue::NotYetValid => "the old one begins in the future",
            Reissue::NearExpiry => "the old one comes near its end",
        })
    }
}

impl fmt::Debug for Home {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Home")
            .field("folder", &self.folder)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
