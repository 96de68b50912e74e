//! The certificate authority: makes itself, the server's certificate and those of clients.
//!
//! [`crate::home`] keeps it on disk; the apiserver signs the requests of agents with it. Times are
//! passed in. Every certificate begins a little early, so that a client whose clock is slow takes it.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
    SanType, SerialNumber,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::Error;
use crate::subject::Subject;
use crate::token::to_hex;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3653 * DAY.as_secs());
/// Some clients refuse certificates of servers that last longer than 825 days.
const SERVER_LIFETIME: Duration = Duration::from_secs(730 * DAY.as_secs());
/// At a start with less left, the server's certificate is made anew. Half of its life, so that
/// only a server that runs for a year without a restart ever comes near the end.
const SERVER_RENEWAL: Duration = Duration::from_secs(365 * DAY.as_secs());
/// How slow the clock of a client may be.
const BACKDATE: Duration = Duration::from_secs(60 * 60);
/// What an agent's certificate lives; it renews at two thirds.
pub const AGENT_LIFETIME: Duration = DAY;
/// A signing request with a large RSA key takes less than 2 KiB.
const REQUEST_BYTES_MAX: usize = 16 * 1024;

/// A certificate authority that can sign.
pub struct Authority {
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
    facts: Facts,
}

/// A certificate with its key, both as PEM.
#[derive(Clone)]
pub struct Issued {
    pub certificate_pem: String,
    pub key_pem: String,
}

/// What we look at in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub names: BTreeSet<String>,
    pub begins: Timestamp,
    pub expires: Timestamp,
    /// The subject and issuer in their encoded form: only good to be compared.
    pub subject: Vec<u8>,
    pub issuer: Vec<u8>,
    pub public_key: Vec<u8>,
}

/// Why the server's certificate must be made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reissue {
    Missing,
    OtherAuthority,
    OtherKey,
    NamesChanged,
    NotYetValid,
    NearExpiry,
}

/// What the server's certificate must be like.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    pub names: &'a BTreeSet<String>,
    pub authority: &'a Facts,
    pub public_key: &'a [u8],
}

impl Authority {
    /// A new authority around an own, new key.
    pub fn generate(now: Timestamp) -> Result<Authority, Error> {
        Authority::with_key(generate_key()?, now)
    }

    /// A new certificate for an authority whose key exists. Its name comes from the key, so that
    /// what was signed before still fits, and two authorities never share a name.
    pub fn with_key(key: KeyPair, now: Timestamp) -> Result<Authority, Error> {
        let id = to_hex(&Sha256::digest(key.subject_public_key_info())[..4]);
        let mut params = params(&format!("tombolo-ca-{id}"), AUTHORITY_LIFETIME, now)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let certificate =
            params.self_signed(&key).map_err(Error::cryptography("sign the authority"))?;
        let facts = read_facts(certificate.der())?;
        Ok(Authority {
            certificate_pem: certificate.pem(),
            issuer: Issuer::new(params, key),
            facts,
        })
    }

    /// An authority from its files. That the two belong together is for the caller to check, who
    /// knows the names of the files.
    pub fn load(certificate_pem: &str, key: KeyPair) -> Result<Authority, Error> {
        let certificate = parse_certificate(certificate_pem)?;
        let facts = read_facts(&certificate)?;
        let issuer = Issuer::from_ca_cert_der(&certificate, key)
            .map_err(Error::cryptography("read the authority's certificate"))?;
        Ok(Authority { certificate_pem: certificate_pem.to_owned(), issuer, facts })
    }

    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Only [`crate::home`] writes it, to a file that is closed to others.
    pub(crate) fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// The certificate of the server for a key that it already has.
    pub fn server(
        &self,
        key: &KeyPair,
        names: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<String, Error> {
        let mut params = self.leaf("tombolo-server", SERVER_LIFETIME, now)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names =
            names.iter().map(|name| alternative_name(name)).collect::<Result<_, _>>()?;
        self.sign(&params, key)
    }

    /// A client certificate with a key of its own.
    pub fn client(
        &self,
        subject: &Subject,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Issued, Error> {
        let key = generate_key()?;
        let certificate_pem = self.sign(&self.client_params(subject, lifetime, now)?, &key)?;
        Ok(Issued { certificate_pem, key_pem: key.serialize_pem() })
    }

    /// Signs the key of a request (PEM). Nothing else of the request is taken over: who it is for,
    /// what it may be used for and how long it lasts is decided here. The request is signed with
    /// its own key, which proves that the sender has it.
    pub fn sign_request(
        &self,
        request_pem: &str,
        subject: &Subject,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<String, Error> {
        let request = parse_request(request_pem)?;
        self.sign(&self.client_params(subject, lifetime, now)?, &request.public_key)
    }

    fn client_params(
        &self,
        subject: &Subject,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<CertificateParams, Error> {
        let name = subject.to_certificate_name();
        let mut params = self.leaf(&name.common_name, lifetime, now)?;
        // The library keeps one value for each type; ours never has more.
        for organization in name.organizations {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        for unit in name.units {
            params.distinguished_name.push(DnType::OrganizationalUnitName, unit);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Ok(params)
    }

    fn leaf(
        &self,
        name: &str,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<CertificateParams, Error> {
        let mut params = params(name, lifetime, now)?;
        params.not_after = params.not_after.min(to_date(self.facts.expires)?);
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        Ok(params)
    }

    fn sign(&self, params: &CertificateParams, key: &impl PublicKeyData) -> Result<String, Error> {
        let certificate = params
            .signed_by(key, &self.issuer)
            .map_err(Error::cryptography("sign a certificate"))?;
        Ok(certificate.pem())
    }
}

/// A signing request that was signed with its own key: the sender has the key.
pub(crate) fn parse_request(pem: &str) -> Result<CertificateSigningRequestParams, Error> {
    let refused = |problem: String| Error::Refused { what: "signing request", problem };
    if pem.len() > REQUEST_BYTES_MAX {
        return Err(refused(format!("it is larger than {REQUEST_BYTES_MAX} bytes")));
    }
    CertificateSigningRequestParams::from_pem(pem).map_err(|error| refused(error.to_string()))
}

/// What tells a public key (its encoded form) from all others: its SHA-256, in hexadecimal.
pub fn key_print(public_key: &[u8]) -> String {
    to_hex(&Sha256::digest(public_key))
}

/// The names and addresses under which the server may be reached.
pub fn server_names(hostname: &str, listen: &[SocketAddr], given: &[String]) -> BTreeSet<String> {
    let mut names = BTreeSet::from(["localhost".into(), "127.0.0.1".into(), "::1".into()]);
    names.insert(hostname.to_ascii_lowercase());
    // The address of all interfaces cannot be dialled.
    let dialled = listen.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified());
    names.extend(dialled.map(|ip| ip.to_string()));
    names.extend(given.iter().map(|name| name.to_ascii_lowercase()));
    // A machine may be called anything; a certificate with such a name would be refused whole.
    names.retain(|name| alternative_name(name).is_ok());
    names
}

/// Whether the server's certificate still serves.
pub fn reissue(found: Option<&Facts>, wanted: &Wanted<'_>, now: Timestamp) -> Option<Reissue> {
    let Some(found) = found else { return Some(Reissue::Missing) };
    let checks = [
        (found.issuer != wanted.authority.subject, Reissue::OtherAuthority),
        (found.public_key != wanted.public_key, Reissue::OtherKey),
        (&found.names != wanted.names, Reissue::NamesChanged),
        (now < found.begins, Reissue::NotYetValid),
        // Near its own end the authority cannot give more, and a new one would gain nothing.
        (
            found.expires < later(now, SERVER_RENEWAL) && found.expires < wanted.authority.expires,
            Reissue::NearExpiry,
        ),
    ];
    checks.into_iter().find(|(applies, _)| *applies).map(|(_, reason)| reason)
}

pub(crate) fn generate_key() -> Result<KeyPair, Error> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(Error::cryptography("make a key"))
}

pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes)
        .map_err(|error| error.to_string())
        .map_err(Error::cryptography("draw random bytes"))
}

pub(crate) fn parse_certificate(pem: &str) -> Result<CertificateDer<'static>, Error> {
    CertificateDer::from_pem_slice(pem.as_bytes())
        .map_err(|error| Error::Refused { what: "certificate", problem: error.to_string() })
}

pub(crate) fn read_facts(certificate: &[u8]) -> Result<Facts, Error> {
    let refused = |problem: String| Error::Refused { what: "certificate", problem };
    let (_, parsed) =
        X509Certificate::from_der(certificate).map_err(|error| refused(error.to_string()))?;
    let alternatives =
        parsed.subject_alternative_name().map_err(|error| refused(error.to_string()))?;
    let names = alternatives
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => address(bytes).map(|ip| ip.to_string()),
            // We never write others; the comparison then asks for a new certificate.
            other => Some(format!("{other:?}")),
        })
        .collect();
    let moment =
        |seconds: i64| Timestamp::from_second(seconds).map_err(|error| refused(error.to_string()));
    Ok(Facts {
        names,
        begins: moment(parsed.validity().not_before.timestamp())?,
        expires: moment(parsed.validity().not_after.timestamp())?,
        subject: parsed.subject().as_raw().to_vec(),
        issuer: parsed.issuer().as_raw().to_vec(),
        public_key: parsed.public_key().raw.to_vec(),
    })
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

fn alternative_name(name: &str) -> Result<SanType, Error> {
    if let Ok(ip) = name.parse() {
        return Ok(SanType::IpAddress(ip));
    }
    let wrong = |problem| Error::Name { what: "server", name: name.into(), problem };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    if name.is_empty() || name.len() > 253 || !name.bytes().all(allowed) {
        return Err(wrong("it is neither an address nor a host name"));
    }
    let name = name.try_into().map_err(|_| wrong("it is not ASCII"))?;
    Ok(SanType::DnsName(name))
}

fn params(name: &str, lifetime: Duration, now: Timestamp) -> Result<CertificateParams, Error> {
    // Random, since the library would take it from the key: two certificates of one key would
    // share a number, which browsers refuse.
    let mut serial = [0; 16];
    fill_random(&mut serial)?;
    serial[0] &= 0x7f;

    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.not_before = to_date(earlier(now, BACKDATE))?;
    params.not_after = to_date(later(now, lifetime))?;
    Ok(params)
}

fn to_date(moment: Timestamp) -> Result<OffsetDateTime, Error> {
    OffsetDateTime::from_unix_timestamp(moment.as_second())
        .map_err(Error::cryptography("write a time into a certificate"))
}

fn later(moment: Timestamp, by: Duration) -> Timestamp {
    moment.saturating_add(by).unwrap_or(Timestamp::MAX)
}

fn earlier(moment: Timestamp, by: Duration) -> Timestamp {
    moment.saturating_sub(by).unwrap_or(Timestamp::MIN)
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Authority")
            .field("expires", &self.facts.expires)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Issued")
            .field("certificate_pem", &self.certificate_pem)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
