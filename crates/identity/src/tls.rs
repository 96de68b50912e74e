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

use crate::authority::{Issued, parse_certificate};
use crate::subject::{CertificateName, Subject};
use crate::{Error, Home};

/// Whom a client certificate names, and until when that holds. A connection may outlive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateIdentity {
    pub subject: Subject,
    pub expires: Timestamp,
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

/// The same, for one who shows a certificate.
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

    let text = |value: &AttributeTypeAndValue<'_>| value.as_str().ok().map(str::to_owned);
    let name = parsed.subject();
    let common_names: Vec<String> = name.iter_common_name().filter_map(text).collect();
    let [common_name] = &common_names[..] else {
        return Err(refused(format!("it has {} common names", common_names.len())));
    };
    let subject = Subject::from_certificate_name(&CertificateName {
        common_name: common_name.clone(),
        organizations: name.iter_organization().filter_map(text).collect(),
        units: name.iter_organizational_unit().filter_map(text).collect(),
    })?;
    Ok(CertificateIdentity { subject, expires })
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
    use crate::{Authority, Role, Via};

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
