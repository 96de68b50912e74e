//! Signing requests, both sides: the agent makes a key and a request, the server reads it.
//!
//! A request is signed with its own key, so that reading a request proves that the sender has the key.
//! Its common name carries the server's nonce at a renewal; nothing else in it is looked at.

use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair, PublicKeyData as _};

use crate::Error;
use crate::authority::{generate_key, key_print, parse_request};

/// What the server reads of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The key that the sender has, as [`key_print`] tells it from others.
    pub key: String,
    /// The nonce that it was made for; empty at a joining.
    pub nonce: String,
}

/// A new private key, as PEM. It never leaves the machine that made it.
pub fn new_key() -> Result<String, Error> {
    Ok(generate_key()?.serialize_pem())
}

/// A request for the key, as PEM.
pub fn make(key_pem: &str, nonce: &str) -> Result<String, Error> {
    let key = KeyPair::from_pem(key_pem).map_err(Error::cryptography("read the private key"))?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, nonce);
    let request =
        params.serialize_request(&key).map_err(Error::cryptography("make a signing request"))?;
    request.pem().map_err(Error::cryptography("write a signing request"))
}

pub fn read(request_pem: &str) -> Result<Proof, Error> {
    let request = parse_request(request_pem)?;
    let nonce = match request.params.distinguished_name.get(&DnType::CommonName) {
        Some(DnValue::Utf8String(text)) => text.clone(),
        Some(DnValue::PrintableString(text)) => text.as_str().to_owned(),
        // We never write others, and an empty nonce is never right.
        Some(_) | None => String::new(),
    };
    let key = key_print(&request.public_key.subject_public_key_info());
    Ok(Proof { key, nonce })
}

/// What tells the key of a file from others.
pub fn print_of(key_pem: &str) -> Result<String, Error> {
    let key = KeyPair::from_pem(key_pem).map_err(Error::cryptography("read the private key"))?;
    Ok(key_print(&key.subject_public_key_info()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_tells_the_key_and_the_nonce_it_was_made_for() {
        let key = new_key().unwrap();
        let proof = read(&make(&key, "5-abc").unwrap()).unwrap();
        assert_eq!(proof, Proof { key: print_of(&key).unwrap(), nonce: "5-abc".into() });
        assert_ne!(print_of(&new_key().unwrap()).unwrap(), proof.key);
    }

    #[test]
    fn a_request_that_was_tampered_with_proves_nothing() {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        let pem = make(&new_key().unwrap(), "nonce-that-was-given").unwrap();
        let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let mut der = STANDARD.decode(body).unwrap();
        let at = der.windows(5).position(|window| window == b"nonce").unwrap();
        der[at] = b'N';
        let forged = format!(
            "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
            STANDARD.encode(der)
        );
        assert!(read(&forged).unwrap_err().to_string().contains("signing request is refused"));
        assert!(read("").is_err());
    }
}
