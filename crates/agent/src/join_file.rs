//! The file that is handed over to a machine so that it can join: where the controllers are, whom
//! to trust, and a token that is good once. Written by `tombolo token create --site`, read here.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::lighthouse::{LIGHTHOUSES_MAX, Lighthouse};

/// A certificate, a token and a few addresses.
const FILE_BYTES_MAX: u64 = 64 * 1024;
const ADDRESSES_MAX: usize = 64;

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinFile {
    /// Such as `https://10.0.0.1:7070`; tried in this order.
    pub addresses: Vec<String>,
    /// The authority of the controllers, as PEM. Nobody else is trusted.
    pub authority: String,
    pub token: String,
    pub site: String,
    /// Until when the token is good.
    pub expires: String,
    /// Who knows where the controllers are when they are there no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lighthouses: Vec<Lighthouse>,
}

impl JoinFile {
    /// Reads the file, or standard input for `-`.
    pub fn read(path: &Path) -> Result<JoinFile, Error> {
        let fail = |source| Error::File { doing: "read", path: path.into(), source };
        let mut text = String::new();
        let read = match path == Path::new("-") {
            true => std::io::stdin().take(FILE_BYTES_MAX).read_to_string(&mut text),
            false => File::open(path).map_err(fail)?.take(FILE_BYTES_MAX).read_to_string(&mut text),
        };
        read.map_err(fail)?;
        JoinFile::parse(&text).map_err(|problem| Error::Malformed { path: path.into(), problem })
    }

    /// The message never quotes the text: it has a secret in it.
    pub fn parse(text: &str) -> Result<JoinFile, String> {
        let file: JoinFile = serde_json::from_str(text).map_err(|error| {
            format!("line {} is not as `tombolo token create` writes it", error.line())
        })?;
        check_addresses(&file.addresses)?;
        if file.lighthouses.len() > LIGHTHOUSES_MAX {
            return Err(format!("more than {LIGHTHOUSES_MAX} lighthouses"));
        }
        file.lighthouses.iter().try_for_each(|one| check_address(&one.address))?;
        Ok(file)
    }

    /// As it is written to a file or shown.
    pub fn to_text(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("plain fields can be written");
        format!("{text}\n")
    }
}

pub(crate) fn check_addresses(addresses: &[String]) -> Result<(), String> {
    if addresses.is_empty() || addresses.len() > ADDRESSES_MAX {
        return Err(format!("found {} addresses, expected 1 to {ADDRESSES_MAX}", addresses.len()));
    }
    addresses.iter().try_for_each(|address| check_address(address))
}

pub(crate) fn check_address(address: &str) -> Result<(), String> {
    let secure = address.strip_prefix("https://").is_some_and(|rest| !rest.is_empty());
    match secure && address.parse::<http::Uri>().is_ok() {
        true => Ok(()),
        false => Err(format!("{address:?} is not an address such as https://10.0.0.1:7070")),
    }
}

impl std::fmt::Debug for JoinFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("JoinFile")
            .field("addresses", &self.addresses)
            .field("site", &self.site)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> JoinFile {
        JoinFile {
            addresses: vec!["https://127.0.0.1:7070".into()],
            authority: "PEM".into(),
            token: "tombolo_secret".into(),
            site: "north".into(),
            expires: "2026-06-01T00:00:00Z".into(),
            lighthouses: Vec::new(),
        }
    }

    #[test]
    fn what_is_written_reads_back_and_debug_shows_no_secret() {
        let read = JoinFile::parse(&file().to_text()).unwrap();
        assert_eq!((read.site.as_str(), read.token.as_str()), ("north", "tombolo_secret"));
        assert!(!format!("{read:?}").contains("secret"));
    }

    #[test]
    fn only_tls_is_dialled_and_no_message_quotes_the_token() {
        let plain = JoinFile { addresses: vec!["http://10.0.0.1".into()], ..file() };
        let error = JoinFile::parse(&plain.to_text()).unwrap_err();
        assert!(error.contains("https://"), "{error}");
        let none = JoinFile { addresses: Vec::new(), ..file() };
        assert!(JoinFile::parse(&none.to_text()).is_err());
        let broken = file().to_text().replace("\"site\"", "site");
        assert!(!JoinFile::parse(&broken).unwrap_err().contains("secret"));
    }
}
