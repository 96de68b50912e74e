//! Coming in: with a token at first, and with the certificate so far from then on.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Request;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tombolo_identity::joining::Sought;
use tombolo_identity::{Remit, request};

use crate::credentials::{Credentials, Identity, Written};
use crate::{Error, JoinFile, connection};

/// A controller that has not answered by then is tried again later.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Who wants to join.
#[derive(Clone, Copy, Debug)]
pub struct Applicant<'a> {
    pub sought: Sought<'a>,
    pub machine: &'a str,
    pub key_pem: &'a str,
    /// For the Node.
    pub labels: &'a BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Joined {
    #[serde(flatten, with = "Written")]
    remit: Remit,
    certificate: String,
    #[serde(default)]
    how: String,
}

/// Tries the addresses of the file in turn. The same question can be asked twice: if the answer was
/// lost, the server gives it again to the same key.
pub async fn join(file: &JoinFile, applicant: Applicant<'_>) -> Result<Identity, Error> {
    let mut body = json!({
        "token": file.token, "request": request::make(applicant.key_pem, "")?,
        "machine": applicant.machine,
        "agentVersion": env!("CARGO_PKG_VERSION"), "labels": applicant.labels,
    });
    match applicant.sought {
        Sought::Node(node) => body["node"] = json!(node),
        Sought::Site => body["standsFor"] = json!("site"),
    }
    let joined: Joined =
        ask_in_turn(&file.addresses, &file.authority, "/tombolo/join", &body).await?;
    tracing::info!(agent_of = %joined.remit, how = joined.how, "joined");
    Ok(Identity {
        remit: joined.remit,
        certificate: joined.certificate,
        authority: file.authority.clone(),
        addresses: file.addresses.clone(),
        lighthouses: file.lighthouses.clone(),
        labels: applicant.labels.clone(),
    })
}

/// A new certificate for the old one, which may have expired. No certificate is shown on the connection,
/// since an expired certificate would not get through the handshake: the proof is the nonce, signed with
/// the key. What the operator says of the labels goes along.
pub async fn renew(
    credentials: &Credentials,
    instance: &str,
    labels: &BTreeMap<String, String>,
) -> Result<Identity, Error> {
    let identity = &credentials.identity;
    let mut last = None;
    for address in &identity.addresses {
        match renew_at(address, credentials, instance, labels).await {
            Ok(certificate) => {
                let labels = labels.clone();
                return Ok(Identity { certificate, labels, ..identity.clone() });
            }
            Err(error) if error.retryable() => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| Error::Answer { problem: "there are no addresses".into() }))
}

async fn renew_at(
    address: &str,
    credentials: &Credentials,
    instance: &str,
    labels: &BTreeMap<String, String>,
) -> Result<String, Error> {
    let told = &credentials.identity.labels;
    let dropped: Vec<&String> = told.keys().filter(|key| !labels.contains_key(*key)).collect();
    // What was said before may have been changed on the Node since, and that stays.
    let said_anew: BTreeMap<&String, &String> =
        labels.iter().filter(|(key, value)| told.get(*key) != Some(*value)).collect();
    let client = connection::anonymous(address, &credentials.identity.authority)?;
    let given = get(&client, "/tombolo/nonce").await?;
    let nonce = given["nonce"].as_str().unwrap_or_default();
    let body = json!({
        "certificate": credentials.identity.certificate,
        "request": request::make(&credentials.key_pem, nonce)?, "instance": instance,
        "labels": said_anew, "labelsDropped": dropped,
    });
    let renewed: Joined = post(&client, "/tombolo/renew", &body).await?;
    Ok(renewed.certificate)
}

async fn ask_in_turn<T: serde::de::DeserializeOwned>(
    addresses: &[String],
    authority_pem: &str,
    path: &str,
    body: &Value,
) -> Result<T, Error> {
    let mut last = None;
    for address in addresses {
        let client = connection::anonymous(address, authority_pem)?;
        match post(&client, path, body).await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.retryable() => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| Error::Answer { problem: "there are no addresses".into() }))
}

async fn post<T: serde::de::DeserializeOwned>(
    client: &Client,
    path: &str,
    body: &Value,
) -> Result<T, Error> {
    let request = Request::post(path).header("content-type", "application/json");
    let value = answer(client, request, body.to_string().into_bytes()).await?;
    serde_json::from_value(value).map_err(|error| Error::Answer { problem: error.to_string() })
}

pub(crate) async fn get(client: &Client, path: &str) -> Result<Value, Error> {
    answer(client, Request::get(path), Vec::new()).await
}

async fn answer(
    client: &Client,
    request: http::request::Builder,
    body: Vec<u8>,
) -> Result<Value, Error> {
    let request =
        request.body(body).map_err(|error| Error::Answer { problem: error.to_string() })?;
    match tokio::time::timeout(ANSWER_TIMEOUT, client.request::<Value>(request)).await {
        Ok(answer) => answer.map_err(Error::of_request),
        Err(late) => Err(Error::Unreachable { source: Box::new(late) }),
    }
}
