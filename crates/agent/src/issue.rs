//! Handing out the right to join: a JoinToken on the server, and the [`JoinFile`] for the machine. Used
//! by `tombolo token create`, and by the demo and the benchmarks, which start agents of their own.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::{Api, PostParams};
use tombolo_identity::Token;
use tombolo_model::jointoken::StandsFor;
use tombolo_model::{JoinToken, JoinTokenSpec};

use crate::{Error, JoinFile, clock};

/// Makes a token on the server, and gives what a machine joins with: the addresses of the server and
/// the certificate of its authority as PEM go into it.
pub async fn hand_out(
    client: &Client,
    site: &str,
    address: String,
    authority: String,
    life: Duration,
) -> Result<JoinFile, Error> {
    let token = Token::generate()?;
    let expires = clock::time_of_day().saturating_add(life).unwrap_or(Timestamp::MAX);
    let tokens: Api<JoinToken> = Api::all(client.clone());
    let made = tokens
        .create(&PostParams::default(), &join_token(&token, site, StandsFor::Node, expires))
        .await;
    made.map_err(Error::of_request)?;
    Ok(JoinFile {
        addresses: vec![address],
        authority,
        token: token.reveal(),
        site: site.to_owned(),
        expires: expires.to_string(),
        lighthouses: Vec::new(),
    })
}

/// The JoinToken as the server gets it: with the hash, and without the secret.
pub fn join_token(
    token: &Token,
    site: &str,
    stands_for: StandsFor,
    expires: Timestamp,
) -> JoinToken {
    let hash = token.hash();
    let spec = JoinTokenSpec {
        site: site.to_owned(),
        stands_for,
        hash: hash.to_string(),
        expires: Time(expires),
        description: None,
    };
    JoinToken::new(&hash.join_token_name(), spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_not_the_token() {
        let token = Token::from_bytes([7; 32]);
        let made = join_token(&token, "north", StandsFor::Node, Timestamp::UNIX_EPOCH);
        let sent = serde_json::to_string(&made).unwrap();
        assert!(!sent.contains(&token.reveal()));
        assert!(sent.contains("\"expires\":\"1970-01-01T00:00:00Z\""), "{sent}");
    }
}
