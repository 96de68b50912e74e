//! What TLS needs of us: the server's and the clients' settings, and a certificate as a subject.
//!
//! The apiserver's listener takes [`server_config`] and asks [`certificate_identity`] of every
//! client certificate. The cryptography is always named (ring), since a process-wide default
//! could be missing, or chosen by another library.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::x509::AttributeTypeAndValue;

use crate::authority::{Issued, key_print, parse_certificate, read_facts};
use crate::subject::{CertificateName, Subject};
use crate::{Authority, Error, Home};

/// A certificate with a large RSA key and a long name takes less than 4 KiB.
const CERTIFICATE_BYTES_MAX: usize = 16 * 1024;

/// Whom a client certificate names, and from when until when that holds. A connection may outlive it, and
/// after a clock was set back it may begin in the future.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateIdentity {
    pub subject: Subject,
    pub begins: Timestamp,
    pub expires: Timestamp,
    /// What tells its key from others, as [`key_print`] makes it.
    pub key: String,
}

/// Takes clients with a certificate of our authority, and clients with none, who must then send a
/// token. A certificate of anyone else ends the handshake.
pub fn server_config(home: &Home) -> Result<Arc<ServerConfig>, Error> {
    let roots = roots(home.authority.certificate_pem())?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .allow_unauthenticated()
        .build()
        .map_err(Error::cryptography("set up the check of client certificates"))?;
    let (chain, key) = pair(&home.server)?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(Error::cryptography("choose the versions of TLS"))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(Error::cryptography("use the server's certificate"))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// For clients that trust our authority and nobody else.
pub fn client_config(authority_pem: &str) -> Result<ClientConfig, Error> {
    Ok(client_builder(authority_pem)?.with_no_client_auth())
}

/// The same, for a client that shows a certificate.
pub fn client_config_with(authority_pem: &str, identity: &Issued) -> Result<ClientConfig, Error> {
    let (chain, key) = pair(identity)?;
    client_builder(authority_pem)?
        .with_client_auth_cert(chain, key)
        .map_err(Error::cryptography("use the client certificate"))
}

/// Reads a client certificate that the handshake has already checked against our authority. The
/// time is checked again: a resumed session skips that part of the handshake.
pub fn certificate_identity(
    certificate: &[u8],
    now: Timestamp,
) -> Result<CertificateIdentity, Error> {
    let refused = |problem: String| Error::Refused { what: "client certificate", problem };
    let (_, parsed) =
        X509Certificate::from_der(certificate).map_err(|error| refused(error.to_string()))?;
    let moment =
        |seconds: i64| Timestamp::from_second(seconds).map_err(|error| refused(error.to_string()));
    let begins = moment(parsed.validity().not_before.timestamp())?;
    let expires = moment(parsed.validity().not_after.timestamp())?;
    if now < begins {
        return Err(refused(format!("it begins only at {begins}; a clock may be wrong")));
    }
    if expires <= now {
        return Err(refused(format!("it expired at {expires}")));
    }

    let subject = subject_of(&parsed)?;
    Ok(CertificateIdentity { subject, begins, expires, key: key_print(parsed.public_key().raw) })
}

/// Reads a certificate (PEM) that came in a body, where no handshake has looked at it: whether
/// `authority` signed it is checked here, and whether it has expired is not. For the agent that
/// was offline for too long, who proves in another way that it has the key.
pub fn expired_identity(
    authority: &Authority,
    certificate_pem: &str,
) -> Result<CertificateIdentity, Error> {
    let refused = |problem: String| Error::Refused { what: "certificate", problem };
    if certificate_pem.len() > CERTIFICATE_BYTES_MAX {
        return Err(refused(format!("it is larger than {CERTIFICATE_BYTES_MAX} bytes")));
    }
    let der = parse_certificate(certificate_pem)?;
    let (_, parsed) =
        X509Certificate::from_der(&der).map_err(|error| refused(error.to_string()))?;
    let own = parse_certificate(authority.certificate_pem())?;
    let (_, own) = X509Certificate::from_der(&own).map_err(|error| refused(error.to_string()))?;
    parsed
        .verify_signature(Some(own.public_key()))
        .map_err(|_| refused("it was not signed by the authority of this server".into()))?;
    let moment =
        |seconds: i64| Timestamp::from_second(seconds).map_err(|error| refused(error.to_string()));
    let begins = moment(parsed.validity().not_before.timestamp())?;
    let expires = moment(parsed.validity().not_after.timestamp())?;
    let subject = subject_of(&parsed)?;
    Ok(CertificateIdentity { subject, begins, expires, key: key_print(parsed.public_key().raw) })
}

/// From when until when a certificate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    pub begins: Timestamp,
    pub expires: Timestamp,
}

/// For the holder of a certificate (PEM), to know when to renew it.
pub fn lifetime(certificate_pem: &str) -> Result<Lifetime, Error> {
    let facts = read_facts(&parse_certificate(certificate_pem)?)?;
    Ok(Lifetime { begins: facts.begins, expires: facts.expires })
}

/// What tells the key of a certificate (PEM) from others.
pub fn key_of(certificate_pem: &str) -> Result<String, Error> {
    Ok(key_print(&read_facts(&parse_certificate(certificate_pem)?)?.public_key))
}

fn subject_of(parsed: &X509Certificate<'_>) -> Result<Subject, Error> {
    let refused = |problem: String| Error::Refused { what: "client certificate", problem };
    let text = |value: &AttributeTypeAndValue<'_>| value.as_str().ok().map(str::to_owned);
    let name = parsed.subject();
    let common_names: Vec<String> = name.iter_common_name().filter_map(text).collect();
    let [common_name] = &common_names[..] else {
        return Err(refused(format!("it has {} common names", common_names.len())));
    };
    Subject::from_certificate_name(&CertificateName {
        common_name: common_name.clone(),
        organizations: name.iter_organization().filter_map(text).collect(),
        units: name.iter_organizational_unit().filter_map(text).collect(),
    })
}

fn client_builder(
    authority_pem: &str,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>, Error> {
    Ok(ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(Error::cryptography("choose the versions of TLS"))?
        .with_root_certificates(roots(authority_pem)?))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn roots(authority_pem: &str) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    roots
        .add(parse_certificate(authority_pem)?)
        .map_err(Error::cryptography("trust the authority"))?;
    Ok(roots)
}

fn pair(issued: &Issued) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
    let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes())
        .map_err(Error::cryptography("read a private key"))?;
    Ok((vec![parse_certificate(&issued.certificate_pem)?], key))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Role, Via};

    #[test]
    fn a_certificate_names_its_holder_while_it_lasts() {
        let now: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
        let authority = Authority::generate(now).unwrap();
        let anna =
            Subject::person("anna", Role::User, Some("shop".into()), Via::Certificate).unwrap();
        let issued = authority.client(&anna, Duration::from_secs(3600), now).unwrap();
        let der = parse_certificate(&issued.certificate_pem).unwrap();
        let read = |at: &str| certificate_identity(&der, at.parse().unwrap());

        assert_eq!(read("2026-06-01T12:30:00Z").unwrap().subject, anna);
        // A clock that is slow by less than an hour does no harm.
        assert_eq!(read("2026-06-01T11:10:00Z").unwrap().subject, anna);
        assert_eq!(
            read("2026-06-01T13:00:00Z").unwrap_err().to_string(),
            "the client certificate is refused: it expired at 2026-06-01T13:00:00Z"
        );
        assert!(read("1970-01-01T00:00:00Z").unwrap_err().to_string().contains("begins only at"));
    }

    #[test]
    fn an_expired_certificate_still_names_its_holder_to_the_authority_that_signed_it() {
        let now: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
        let authority = Authority::generate(now).unwrap();
        let agent = Subject::agent("north", "n1").unwrap();
        let issued = authority.client(&agent, Duration::from_secs(1), now).unwrap();
        let read = expired_identity(&authority, &issued.certificate_pem).unwrap();
        assert_eq!(read.subject, agent);
        assert_eq!(read.expires.to_string(), "2026-06-01T12:00:01Z");

        let stranger = Authority::generate(now).unwrap();
        let error = expired_identity(&stranger, &issued.certificate_pem).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the certificate is refused: it was not signed by the authority of this server"
        );
        assert!(expired_identity(&authority, "nonsense").is_err());
        assert!(expired_identity(&authority, &"x".repeat(1 << 20)).is_err());
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        let now = Timestamp::UNIX_EPOCH;
        assert!(certificate_identity(b"", now).is_err());
        assert!(certificate_identity(&[0x30; 100], now).is_err());
        // The authority's own certificate names no role.
        let authority = Authority::generate(now).unwrap();
        let der = parse_certificate(authority.certificate_pem()).unwrap();
        assert!(certificate_identity(&der, now).is_err());
    }
}
