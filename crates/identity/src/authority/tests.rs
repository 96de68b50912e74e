//! Names, reasons to reissue, and certificates read back by another library than wrote them.

use expect_test::{Expect, expect};

use super::*;
use crate::{Role, Via};

fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

#[track_caller]
fn check_names(hostname: &str, listen: &str, given: &[&str], expect: Expect) {
    let given: Vec<String> = given.iter().map(|name| (*name).to_owned()).collect();
    let names = server_names(hostname, &[listen.parse().unwrap()], &given);
    expect.assert_eq(&names.into_iter().collect::<Vec<_>>().join(" "));
}

#[test]
fn the_server_is_known_by_every_name_that_one_can_dial() {
    check_names("Box", "127.0.0.1:7070", &[], expect!["127.0.0.1 ::1 box localhost"]);
    check_names(
        "box",
        "192.0.2.7:7070",
        &["Control.example.org"],
        expect!["127.0.0.1 192.0.2.7 ::1 box control.example.org localhost"],
    );
    check_names("box", "0.0.0.0:7070", &[], expect!["127.0.0.1 ::1 box localhost"]);
    check_names("my_böx", "[::]:7070", &["", "a b"], expect!["127.0.0.1 ::1 localhost"]);
}

#[test]
fn the_server_certificate_is_made_anew_only_for_a_reason() {
    let names = BTreeSet::from(["localhost".to_owned()]);
    let facts = |subject: &str, expires: &str| Facts {
        names: names.clone(),
        begins: "2026-01-01T00:00:00Z".parse().unwrap(),
        expires: expires.parse().unwrap(),
        subject: subject.into(),
        issuer: b"ca".to_vec(),
        public_key: b"key".to_vec(),
    };
    let authority = facts("ca", "2036-01-01T00:00:00Z");
    let good = facts("server", "2028-01-01T00:00:00Z");
    let wanted = Wanted { names: &names, authority: &authority, public_key: b"key" };
    let check = |found: Option<Facts>, now: &str, reason: Option<Reissue>| {
        assert_eq!(reissue(found.as_ref(), &wanted, now.parse().unwrap()), reason);
    };

    check(Some(good.clone()), "2026-06-01T00:00:00Z", None);
    check(None, "2026-06-01T00:00:00Z", Some(Reissue::Missing));
    check(Some(good.clone()), "2027-06-01T00:00:00Z", Some(Reissue::NearExpiry));
    check(Some(good.clone()), "2030-06-01T00:00:00Z", Some(Reissue::NearExpiry));
    check(Some(good.clone()), "1970-01-01T00:00:00Z", Some(Reissue::NotYetValid));
    let other = Facts { names: BTreeSet::from(["example.org".into()]), ..good.clone() };
    check(Some(other), "2026-06-01T00:00:00Z", Some(Reissue::NamesChanged));
    let other = Facts { issuer: b"another".to_vec(), ..good.clone() };
    check(Some(other), "2026-06-01T00:00:00Z", Some(Reissue::OtherAuthority));
    let other = Facts { public_key: b"another".to_vec(), ..good.clone() };
    check(Some(other), "2026-06-01T00:00:00Z", Some(Reissue::OtherKey));
    // The authority's last year: its end is the end of everything, and cannot be put off.
    let last = Facts { expires: authority.expires, ..good };
    check(Some(last), "2035-12-01T00:00:00Z", None);
}

#[test]
fn a_server_certificate_says_what_was_asked() {
    let authority = Authority::generate(now()).unwrap();
    let key = generate_key().unwrap();
    let names = server_names("box", &["[2001:db8::7]:7070".parse().unwrap()], &[]);
    let pem = authority.server(&key, &names, now()).unwrap();
    let facts = read_facts(&parse_certificate(&pem).unwrap()).unwrap();
    assert_eq!(facts.names, names);
    assert_eq!(facts.begins.to_string(), "2026-06-01T11:00:00Z");
    assert_eq!(facts.expires.to_string(), "2028-05-31T12:00:00Z");
    let public_key = key.subject_public_key_info();
    let wanted = Wanted { names: &names, authority: authority.facts(), public_key: &public_key };
    assert_eq!(reissue(Some(&facts), &wanted, now()), None);
}

#[test]
fn no_certificate_outlives_its_authority() {
    let authority = Authority::generate(now()).unwrap();
    let late: Timestamp = "2036-05-01T00:00:00Z".parse().unwrap();
    let pem = authority.server(&generate_key().unwrap(), &BTreeSet::new(), late).unwrap();
    let facts = read_facts(&parse_certificate(&pem).unwrap()).unwrap();
    assert_eq!(facts.expires, authority.facts().expires);
}

#[test]
fn two_certificates_never_share_a_serial_number() {
    let authority = Authority::generate(now()).unwrap();
    let key = generate_key().unwrap();
    let serial = || {
        let pem = authority.server(&key, &BTreeSet::new(), now()).unwrap();
        let der = parse_certificate(&pem).unwrap();
        X509Certificate::from_der(&der).unwrap().1.raw_serial().to_vec()
    };
    assert_ne!(serial(), serial());
}

#[test]
fn a_reloaded_authority_signs_for_the_same_name() {
    let authority = Authority::generate(now()).unwrap();
    let key = KeyPair::from_pem(&authority.key_pem()).unwrap();
    let again = Authority::load(authority.certificate_pem(), key).unwrap();
    assert_eq!(again.facts(), authority.facts());
    // A lost certificate is made again from the key, under the same name.
    let key = KeyPair::from_pem(&authority.key_pem()).unwrap();
    let remade = Authority::with_key(key, now()).unwrap();
    assert_eq!(remade.facts().subject, authority.facts().subject);
}

#[test]
fn a_signing_request_decides_nothing_but_its_key() {
    let authority = Authority::generate(now()).unwrap();
    let key = generate_key().unwrap();
    let mut greedy = CertificateParams::new(vec!["example.org".into()]).unwrap();
    greedy.distinguished_name.push(DnType::OrganizationName, "tombolo:role:admin");
    greedy.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let request = greedy.serialize_request(&key).unwrap().pem().unwrap();

    let agent = Subject::agent("north", "n1").unwrap();
    let pem = authority.sign_request(&request, &agent, AGENT_LIFETIME, now()).unwrap();
    let der = parse_certificate(&pem).unwrap();
    let facts = read_facts(&der).unwrap();
    assert_eq!(facts.public_key, key.subject_public_key_info());
    assert_eq!(facts.names, BTreeSet::new());
    assert_eq!(facts.expires.to_string(), "2026-06-02T12:00:00Z");
    assert!(!X509Certificate::from_der(&der).unwrap().1.is_ca());
    assert_eq!(crate::tls::certificate_identity(&der, now()).unwrap().subject, agent);
}

#[test]
fn a_bad_signing_request_is_refused() {
    #[track_caller]
    fn check(request: &str, expect: Expect) {
        let authority = Authority::generate(now()).unwrap();
        let agent = Subject::agent("north", "n1").unwrap();
        let error = authority.sign_request(request, &agent, AGENT_LIFETIME, now()).unwrap_err();
        assert!(error.is_of_the_request());
        expect.assert_eq(&error.to_string());
    }
    let request = CertificateParams::default().serialize_request(&generate_key().unwrap()).unwrap();
    let mut forged = request.der().to_vec();
    *forged.last_mut().unwrap() ^= 1;
    let forged = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, forged);
    check(
        "hello",
        expect!["the signing request is refused: Could not parse certificate signing request"],
    );
    check(
        &"x".repeat(20_000),
        expect!["the signing request is refused: it is larger than 16384 bytes"],
    );
    check(
        &format!(
            "-----BEGIN CERTIFICATE REQUEST-----\n{forged}\n-----END CERTIFICATE REQUEST-----\n"
        ),
        expect!["the signing request is refused: Invalid CSR signature"],
    );
}

#[test]
fn debug_never_shows_a_key() {
    let authority = Authority::generate(now()).unwrap();
    let anna = Subject::person("anna", Role::Admin, None, Via::Certificate).unwrap();
    let issued = authority.client(&anna, DAY, now()).unwrap();
    assert!(!format!("{authority:?} {issued:?}").contains("PRIVATE"));
}
