//! Bearer tokens: 256 random bits, kept only as a hash, told apart when mistyped.
//!
//! The text is `tombolo_`, 64 hexadecimal digits, and 8 more that check them: a person who loses a
//! character while copying is told so, instead of being told that the token is wrong. Join tokens are the
//! same text; only the record differs. The apiserver looks records up; [`check`] judges.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::{Error, Role, Subject, Via};

/// Where access tokens are kept, and what else only the system touches.
pub use tombolo_model::keys::SYSTEM_NAMESPACE;
/// The type of the Secrets that keep access tokens.
pub const ACCESS_TOKEN_TYPE: &str = "tombolo.dev/access-token";

const PREFIX: &str = "tombolo_";
const SECRET_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 4;
const TEXT_BYTES: usize = PREFIX.len() + 2 * (SECRET_BYTES + CHECKSUM_BYTES);
/// So much of the hash names the Secret: 80 bits, so that no two meet by chance.
const NAME_DIGITS: usize = 20;

/// A token in the clear. `Debug` does not show it and there is no `Display`: a program that prints one
/// writes `reveal`.
#[derive(Clone)]
pub struct Token([u8; SECRET_BYTES]);

/// What is kept of a token. Comparison takes the same time wherever the difference is.
#[derive(Clone, Copy, Eq)]
pub struct TokenHash([u8; 32]);

/// Why a text is no token at all. Says nothing of the text itself: it may be almost a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("this is not a token of this server: those begin with tombolo_")]
    Foreign,
    #[error("the token has {found} characters instead of {TEXT_BYTES}: it was not copied whole")]
    Length { found: usize },
    #[error("the token has a wrong character: it was mistyped or damaged in copying")]
    Mistyped,
}

/// Why a well-formed token does not open the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the token is not known here: it was revoked, or belongs to another server")]
    Unknown,
    #[error("the token expired at {at}: ask an administrator for a new one")]
    Expired { at: Timestamp },
}

/// The record of an access token, as the Secret keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessToken {
    pub hash: TokenHash,
    pub user: String,
    pub role: Role,
    pub namespace: Option<String>,
    /// `None` lasts until it is deleted.
    pub expires: Option<Timestamp>,
}

impl Token {
    pub fn generate() -> Result<Token, Error> {
        let mut secret = [0; SECRET_BYTES];
        crate::authority::fill_random(&mut secret)?;
        Ok(Token(secret))
    }

    pub fn from_bytes(secret: [u8; SECRET_BYTES]) -> Token {
        Token(secret)
    }

    /// Blanks and line ends around it come from files and clipboards and do not matter.
    pub fn parse(text: &str) -> Result<Token, Malformed> {
        let text = text.trim_ascii();
        let digits = text.strip_prefix(PREFIX).ok_or(Malformed::Foreign)?;
        if text.len() != TEXT_BYTES {
            return Err(Malformed::Length { found: text.chars().count() });
        }
        let bytes: [u8; SECRET_BYTES + CHECKSUM_BYTES] =
            from_hex(digits).ok_or(Malformed::Mistyped)?;
        let (secret, found) = bytes.split_at(SECRET_BYTES);
        let secret = <[u8; SECRET_BYTES]>::try_from(secret).map_err(|_| Malformed::Mistyped)?;
        if checksum(&secret) != found {
            return Err(Malformed::Mistyped);
        }
        Ok(Token(secret))
    }

    /// The text that the holder sends. Call it only to hand the token out.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}{}", to_hex(&self.0), to_hex(&checksum(&self.0)))
    }

    /// No salt and no stretching: 256 random bits cannot be guessed from their hash, and the
    /// server must find the record by it.
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.0).into())
    }
}

impl TokenHash {
    pub fn parse(hex: &str) -> Option<TokenHash> {
        from_hex(hex).map(TokenHash)
    }

    /// The name of the Secret that keeps the access token with this hash.
    pub fn secret_name(&self) -> String {
        format!("access-{}", &to_hex(&self.0)[..NAME_DIGITS])
    }

    /// The name of the JoinToken that keeps the join token with this hash.
    pub fn join_token_name(&self) -> String {
        format!("join-{}", &to_hex(&self.0)[..NAME_DIGITS])
    }
}

impl AccessToken {
    /// The record of a new token, if such a subject can exist.
    pub fn new(
        token: &Token,
        user: &str,
        role: Role,
        namespace: Option<String>,
        expires: Option<Timestamp>,
    ) -> Result<AccessToken, Error> {
        let subject = Subject::person(user, role, namespace, Via::Token)?;
        let Subject { name: user, role, namespace, via: _ } = subject;
        Ok(AccessToken { hash: token.hash(), user, role, namespace, expires })
    }

    /// The `data` of the Secret, values in base64 as the protocol has them.
    pub fn to_data(&self) -> BTreeMap<String, String> {
        let fields = [
            ("hash", Some(self.hash.to_string())),
            ("user", Some(self.user.clone())),
            ("role", Some(self.role.to_string())),
            ("namespace", self.namespace.clone()),
            ("expires", self.expires.map(|at| at.to_string())),
        ];
        let present = fields.into_iter().filter_map(|(key, value)| Some((key, value?)));
        present.map(|(key, value)| (key.to_owned(), BASE64.encode(value))).collect()
    }

    /// Reads the `data` of a Secret. An admin may have written it by hand, so that nothing is
    /// taken on trust; a field that is damaged never widens what the token may do.
    pub fn from_data(data: &BTreeMap<String, String>) -> Result<AccessToken, Error> {
        let refused = |problem: String| Error::Refused { what: "access token record", problem };
        let field = |key: &str| match data.get(key) {
            None => Ok(None),
            Some(text) => BASE64
                .decode(text)
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .map(Some)
                .ok_or_else(|| refused(format!("its {key} is not text in base64"))),
        };
        let required =
            |key: &str| field(key)?.ok_or_else(|| refused(format!("it has no field {key}")));

        let hash = TokenHash::parse(&required("hash")?)
            .ok_or_else(|| refused("its hash is not 64 hexadecimal digits".into()))?;
        let role = required("role")?;
        let role = Role::parse(&role).ok_or_else(|| refused(format!("no role {role:?} exists")))?;
        let expires = match field("expires")? {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| {
                refused(format!("{text:?} is not a time such as 2026-01-31T12:00:00Z"))
            })?),
        };
        let user = required("user")?;
        let subject = Subject::person(&user, role, field("namespace")?, Via::Token)?;
        let Subject { name: user, role, namespace, via: _ } = subject;
        Ok(AccessToken { hash, user, role, namespace, expires })
    }
}

/// Whom `token` stands for, by its record.
pub fn check(token: &Token, record: &AccessToken, now: Timestamp) -> Result<Subject, Refused> {
    if token.hash() != record.hash {
        return Err(Refused::Unknown);
    }
    match record.expires {
        Some(at) if at <= now => Err(Refused::Expired { at }),
        Some(_) | None => Ok(Subject {
            name: record.user.clone(),
            role: record.role.clone(),
            namespace: record.namespace.clone(),
            via: Via::Token,
        }),
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &TokenHash) -> bool {
        let difference = self.0.iter().zip(&other.0).fold(0, |all, (a, b)| all | (a ^ b));
        // Keeps the compiler from leaving the loop at the first difference.
        std::hint::black_box(difference) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TokenHash({self})")
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&to_hex(&self.0))
    }
}

fn checksum(secret: &[u8; SECRET_BYTES]) -> [u8; CHECKSUM_BYTES] {
    // The label keeps the checksum, which is in the clear, from being a piece of the kept hash.
    let digest =
        Sha256::new().chain_update("tombolo token checksum").chain_update(secret).finalize();
    [digest[0], digest[1], digest[2], digest[3]]
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// Lower case only: one token has one text.
fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    fn record(role: Role, namespace: Option<&str>, expires: Option<&str>) -> AccessToken {
        let expires = expires.map(|text| text.parse().unwrap());
        let token = Token::from_bytes([7; 32]);
        AccessToken::new(&token, "anna", role, namespace.map(str::to_owned), expires).unwrap()
    }

    #[track_caller]
    fn check_text(text: &str, expect: Expect) {
        expect.assert_eq(&match Token::parse(text) {
            Ok(token) => format!("{}", token.hash()),
            Err(malformed) => malformed.to_string(),
        });
    }

    #[test]
    fn a_mistyped_token_is_told_from_a_wrong_one() {
        let text = Token::from_bytes([7; 32]).reveal();
        check_text(
            &format!("  {text}\n"),
            expect!["4bb06f8e4e3a7715d201d573d0aa423762e55dabd61a2c02278fa56cc6d294e0"],
        );
        check_text("", expect!["this is not a token of this server: those begin with tombolo_"]);
        check_text(
            &text[..79],
            expect!["the token has 79 characters instead of 80: it was not copied whole"],
        );
        check_text(
            &text.replacen('7', "8", 1),
            expect!["the token has a wrong character: it was mistyped or damaged in copying"],
        );
        check_text(
            &format!("tombolo_{}", "ö".repeat(36)),
            expect!["the token has a wrong character: it was mistyped or damaged in copying"],
        );
    }

    #[test]
    fn debug_never_shows_the_secret() {
        let token = Token::from_bytes([0xab; 32]);
        assert_eq!(format!("{token:?}"), "Token(…)");
        assert!(!format!("{:?}", token.hash()).contains("abababab"));
    }

    #[test]
    fn two_tokens_are_never_the_same() {
        assert_ne!(Token::generate().unwrap().hash(), Token::generate().unwrap().hash());
    }

    #[test]
    fn a_record_opens_only_to_its_own_token_and_until_it_expires() {
        let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        let token = Token::from_bytes([7; 32]);
        let lasting = record(Role::Guest, None, None);
        assert_eq!(check(&token, &lasting, now).unwrap().to_string(), "anna (guest)");
        assert_eq!(check(&Token::from_bytes([8; 32]), &lasting, now), Err(Refused::Unknown));

        let ended = record(Role::Guest, None, Some("2026-06-01T00:00:00Z"));
        assert_eq!(check(&token, &ended, now), Err(Refused::Expired { at: now }));
        let open = record(Role::Guest, None, Some("2026-06-01T00:00:01Z"));
        assert!(check(&token, &open, now).is_ok());
    }

    #[test]
    fn a_record_survives_the_way_through_a_secret() {
        let user = record(Role::User, Some("shop"), Some("2027-01-01T00:00:00Z"));
        assert_eq!(AccessToken::from_data(&user.to_data()).unwrap(), user);
        let admin = record(Role::Admin, None, None);
        assert_eq!(AccessToken::from_data(&admin.to_data()).unwrap(), admin);
        assert_eq!(admin.hash.secret_name(), "access-4bb06f8e4e3a7715d201");
    }

    #[test]
    fn a_damaged_record_is_refused_with_the_reason() {
        #[track_caller]
        fn check(key: &str, value: Option<&str>, expect: Expect) {
            let mut data = record(Role::User, Some("shop"), None).to_data();
            match value {
                Some(value) => data.insert(key.into(), BASE64.encode(value)),
                None => data.remove(key),
            };
            expect.assert_eq(&AccessToken::from_data(&data).unwrap_err().to_string());
        }
        check("hash", None, expect!["the access token record is refused: it has no field hash"]);
        check(
            "hash",
            Some("12"),
            expect!["the access token record is refused: its hash is not 64 hexadecimal digits"],
        );
        check(
            "role",
            Some("system"),
            expect![[r#"the access token record is refused: no role "system" exists"#]],
        );
        check(
            "namespace",
            None,
            expect![[
                r#""user" cannot be the name of a role: it needs the namespace in which it holds"#
            ]],
        );
        check(
            "expires",
            Some("soon"),
            expect![[
                r#"the access token record is refused: "soon" is not a time such as 2026-01-31T12:00:00Z"#
            ]],
        );
        check(
            "user",
            Some("system:x"),
            expect![[
                r#""system:x" cannot be the name of a user: names that begin with tombolo: or system: are kept for the system"#
            ]],
        );
    }

    proptest! {
        #[test]
        fn every_token_reads_back(secret: [u8; 32]) {
            let token = Token::from_bytes(secret);
            prop_assert_eq!(Token::parse(&token.reveal()).unwrap().hash(), token.hash());
        }

        #[test]
        fn one_changed_character_is_always_noticed(secret: [u8; 32], at in 8usize..80, to in "[0-9a-f]") {
            let mut text = Token::from_bytes(secret).reveal();
            prop_assume!(text[at..=at] != to);
            text.replace_range(at..=at, &to);
            prop_assert!(matches!(Token::parse(&text), Err(Malformed::Mistyped)));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,120}") {
            let _ = Token::parse(&text);
            let _ = Token::parse(&format!("tombolo_{text}"));
        }
    }
}
