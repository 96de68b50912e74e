//! The client config that a first start writes; kubectl and our shell read it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::Authority;
use crate::token::Token;

/// Where a client on this machine finds the server. https even on loopback: kubectl sends
/// credentials only over TLS.
pub fn url(listen: &[SocketAddr]) -> String {
    let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
    let address = match listen.first() {
        Some(address) if address.ip().is_unspecified() => SocketAddr::new(loopback, address.port()),
        Some(address) => *address,
        None => SocketAddr::new(loopback, 7070),
    };
    format!("https://{address}")
}

/// The text of the file, with all that it needs inside, so that it can be carried elsewhere.
pub fn render(url: &str, authority: &Authority, token: &Token) -> String {
    let authority = BASE64.encode(authority.certificate_pem());
    let token = token.reveal();
    format!(
        "\
# Written by tombolo at its start, and again when the address or a key changes: do not edit.
# Whoever has this file is admin.
apiVersion: v1
kind: Config
clusters:
- name: tombolo
  cluster:
    server: {url}
    certificate-authority-data: {authority}
users:
- name: tombolo-admin
  user:
    token: {token}
contexts:
- name: tombolo
  context:
    cluster: tombolo
    user: tombolo-admin
    namespace: default
current-context: tombolo
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_one_that_can_be_dialled() {
        let check = |listen: &str, expected: &str| {
            assert_eq!(url(&[listen.parse().unwrap()]), expected);
        };
        check("127.0.0.1:7070", "https://127.0.0.1:7070");
        check("0.0.0.0:7070", "https://127.0.0.1:7070");
        check("[::]:81", "https://127.0.0.1:81");
        check("[::1]:7070", "https://[::1]:7070");
        check("192.0.2.7:443", "https://192.0.2.7:443");
    }
}
