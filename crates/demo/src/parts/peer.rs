//! The component that a part calls: where it is, and whether it still answers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::web::Call;

/// Without an answer for so long, a part ends: its peer has moved, and the next start is told where.
const PATIENCE: Duration = Duration::from_secs(4);
/// One that is told while it runs need not end for it, unless something else is wrong.
const PATIENCE_WHEN_TOLD: Duration = Duration::from_secs(60);
/// Names the file that an agent keeps up to date.
const FILE: &str = "TOMBOLO_PEERS_FILE";

#[derive(Debug)]
pub(super) struct Peer {
    name: &'static str,
    call: Option<Call>,
    heard: Instant,
}

impl Peer {
    pub(super) fn of(name: &'static str) -> Peer {
        Peer { name, call: None, heard: Instant::now() }
    }

    /// Asks on the open connection, or else at each address in turn. `None` if nobody answers; an
    /// error once that has lasted too long.
    pub(super) fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<Option<Vec<u8>>, String> {
        let open = self.call.take().map(Ok);
        // Asked for only when they are needed, so that those of now are told.
        let others = std::iter::once_with(|| addresses(self.name)).flatten();
        let others = others.map(|address| Call::open(&address));
        for mut call in open.into_iter().chain(others).flatten() {
            if let Ok(answer) = call.ask(method, path, body) {
                self.call = Some(call);
                self.heard = Instant::now();
                return Ok(Some(answer));
            }
        }
        let told = std::env::var_os(FILE).is_some();
        let patience = if told { PATIENCE_WHEN_TOLD } else { PATIENCE };
        match self.heard.elapsed() < patience {
            true => Ok(None),
            false => Err(format!(
                "no {} has answered for {patience:?} (asked: {}); ending, to be started again with \
                 its new address",
                self.name,
                addresses(self.name).join(", ")
            )),
        }
    }
}

/// Where a component is, as an agent tells every program: in a file that it keeps up to date, or, as of
/// the start of the program, in the environment. Several while the component moves.
fn addresses(name: &str) -> Vec<String> {
    let kept = std::env::var(FILE).ok();
    let kept = kept.and_then(|path| std::fs::read(path).ok());
    if let Some(kept) = kept.and_then(|text| parse(&text, name)) {
        return kept;
    }
    let variable = format!("TOMBOLO_PEERS_{}", name.to_ascii_uppercase());
    let told = std::env::var(variable).unwrap_or_default();
    told.split(',').filter(|address| !address.is_empty()).map(str::to_owned).collect()
}

fn parse(text: &[u8], name: &str) -> Option<Vec<String>> {
    let mut peers: BTreeMap<String, Vec<String>> = serde_json::from_slice(text).ok()?;
    peers.remove(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_peers_is_read_and_what_is_none_is_passed_over() {
        let text = br#"{"store": ["10.0.0.1:7002", "10.0.0.2:7002"], "detector": []}"#;
        assert_eq!(parse(text, "store").unwrap(), ["10.0.0.1:7002", "10.0.0.2:7002"]);
        assert_eq!(parse(text, "detector").unwrap(), Vec::<String>::new());
        assert_eq!(parse(text, "camera"), None);
        assert_eq!(parse(b"half a fi", "store"), None);
    }
}
