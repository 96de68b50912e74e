//! First starts, second starts, starts that were cut short, and folders that others spoiled.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::*;

const NOW: &str = "2026-06-01T12:00:00Z";
const FILES: [&str; 6] =
    [AUTHORITY_KEY, AUTHORITY_CERTIFICATE, SERVER_KEY, SERVER_CERTIFICATE, ADMIN_TOKEN, KUBECONFIG];

/// A data folder that starts can be tried on.
struct Data {
    folder: TempDir,
}

impl Data {
    fn new() -> Data {
        Data { folder: tempfile::tempdir().unwrap() }
    }

    fn started() -> Data {
        let data = Data::new();
        data.start(NOW).unwrap();
        data
    }

    fn start(&self, now: &str) -> Result<Home, Error> {
        self.start_at("127.0.0.1:7070", now)
    }

    fn start_at(&self, listen: &str, now: &str) -> Result<Home, Error> {
        let settings = Settings {
            folder: self.folder.path().join("data"),
            listen: vec![listen.parse().unwrap()],
            names: vec!["control.example.org".into()],
        };
        open(&settings, now.parse().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("data").join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn texts(&self) -> Vec<String> {
        FILES.iter().map(|name| self.text(name)).collect()
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).unwrap().permissions().mode() & 0o777
    }
}

#[test]
fn a_first_start_makes_everything_and_closes_it_to_others() {
    let data = Data::new();
    let home = data.start(NOW).unwrap();
    assert_eq!(home.warnings, Vec::<String>::new());
    for name in FILES {
        assert_eq!(data.mode(name), 0o600, "{name}");
    }
    assert_eq!(data.mode(""), 0o700);
    let token = read_admin_token(&home.folder).unwrap();
    assert_eq!(home.admin(&token).unwrap().role, crate::Role::Admin);
    assert_eq!(home.admin(&Token::generate().unwrap()), None);
    let kubeconfig = data.text(KUBECONFIG);
    assert!(kubeconfig.contains("server: https://127.0.0.1:7070\n"));
    assert!(kubeconfig.contains(&token.reveal()));
    assert!(kubeconfig.contains("current-context: tombolo\n"));
    crate::tls::server_config(&home).unwrap();
}

#[test]
fn a_second_start_changes_nothing() {
    let data = Data::started();
    let before = data.texts();
    let home = data.start("2026-06-02T00:00:00Z").unwrap();
    assert_eq!(data.texts(), before);
    assert_eq!((home.notes, home.warnings), (vec![], vec![]));
}

#[test]
fn a_first_start_that_was_cut_short_anywhere_is_completed() {
    // The files are written in this order; a crash leaves a beginning of it.
    for kept in 0..=FILES.len() {
        let data = Data::started();
        let before = data.texts();
        for name in &FILES[kept..] {
            fs::remove_file(data.path(name)).unwrap();
        }
        let home = data.start(NOW).unwrap();
        crate::tls::server_config(&home).unwrap();
        assert_eq!(data.texts()[..kept], before[..kept], "what was there stays, {kept}");
        assert_eq!(data.start(NOW).unwrap().notes, Vec::<String>::new(), "{kept}");
    }
}

#[test]
fn another_address_makes_a_new_certificate_and_kubeconfig_but_no_new_key() {
    let data = Data::started();
    let before = data.texts();
    let home = data.start_at("192.0.2.7:81", NOW).unwrap();
    assert_eq!(
        home.notes,
        ["made a server certificate: the names of the server changed", "wrote the kubeconfig"]
    );
    let after = data.texts();
    let changed: Vec<&str> =
        (0..FILES.len()).filter(|at| before[*at] != after[*at]).map(|at| FILES[at]).collect();
    assert_eq!(changed, [SERVER_CERTIFICATE, KUBECONFIG]);
    assert!(data.text(KUBECONFIG).contains("server: https://192.0.2.7:81\n"));
}

#[test]
fn the_server_certificate_is_made_anew_before_it_ends() {
    let data = Data::started();
    let home = data.start("2028-01-01T00:00:00Z").unwrap();
    assert_eq!(home.notes, ["made a server certificate: the old one comes near its end"]);
}

#[test]
fn a_deleted_token_is_replaced_by_another() {
    let data = Data::started();
    let before = read_admin_token(&data.path("")).unwrap();
    fs::remove_file(data.path(ADMIN_TOKEN)).unwrap();
    let home = data.start(NOW).unwrap();
    assert_eq!(home.notes, ["made an admin token", "wrote the kubeconfig"]);
    assert_eq!(home.admin(&before), None);
}

#[test]
fn a_secret_that_others_can_read_is_closed_and_told() {
    let data = Data::started();
    fs::set_permissions(data.path(AUTHORITY_KEY), Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(data.path(""), Permissions::from_mode(0o755)).unwrap();
    let home = data.start(NOW).unwrap();
    assert_eq!(data.mode(AUTHORITY_KEY), 0o600);
    assert_eq!(data.mode(""), 0o700);
    let [folder, key] = &home.warnings[..] else { panic!("{:?}", home.warnings) };
    assert!(folder.contains("was open to other users and is closed now"), "{folder}");
    assert!(key.contains("ca.key was open to other users (mode 644)"), "{key}");
}

#[test]
fn an_authority_that_cannot_be_trusted_stops_the_start() {
    #[track_caller]
    fn check(spoil: impl Fn(&Data), now: &str, expected: &str) {
        let data = Data::started();
        spoil(&data);
        let before: Vec<Option<String>> =
            FILES.iter().map(|name| fs::read_to_string(data.path(name)).ok()).collect();
        let error = data.start(now).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let after: Vec<Option<String>> =
            FILES.iter().map(|name| fs::read_to_string(data.path(name)).ok()).collect();
        assert_eq!(before, after, "nothing is written");
    }
    check(|_| (), "2040-01-01T00:00:00Z", "ca.crt expired at 2036-06-01T12:00:00Z");
    check(
        |data| fs::remove_file(data.path(AUTHORITY_KEY)).unwrap(),
        NOW,
        "ca.key is not: put the key back",
    );
    check(
        |data| {
            let other = Authority::generate(NOW.parse().unwrap()).unwrap();
            fs::write(data.path(AUTHORITY_KEY), other.key_pem()).unwrap();
        },
        NOW,
        "does not belong to the certificate",
    );
    check(
        |data| fs::write(data.path(AUTHORITY_KEY), "hello").unwrap(),
        NOW,
        "it holds no private key that can be used",
    );
    check(
        |data| fs::write(data.path(AUTHORITY_CERTIFICATE), "hello").unwrap(),
        NOW,
        "ca.crt is not what it should be",
    );
    check(
        |data| fs::write(data.path(AUTHORITY_KEY), "x".repeat(100_000)).unwrap(),
        NOW,
        "it is larger than 65536 bytes",
    );
    check(
        |data| fs::write(data.path(ADMIN_TOKEN), "tombolo_12").unwrap(),
        NOW,
        "it was not copied whole; delete the file to have a new token made",
    );
}

#[test]
fn a_clock_before_the_authority_is_told_and_does_not_stop_the_start() {
    let data = Data::started();
    let home = data.start("1970-01-02T00:00:00Z").unwrap();
    assert!(home.warnings[0].starts_with("the clock says 1970-01-02T00:00:00Z"));
    // And when the clock is right again, everything is as it was.
    let home = data.start(NOW).unwrap();
    assert_eq!(home.warnings, Vec::<String>::new());
}

#[test]
fn a_name_that_no_certificate_can_hold_is_told() {
    let data = Data::new();
    let settings = Settings {
        folder: data.path(""),
        listen: vec!["127.0.0.1:1".parse().unwrap()],
        names: vec!["what is this".into()],
    };
    let home = open(&settings, NOW.parse().unwrap()).unwrap();
    assert!(home.warnings[0].contains("\"what is this\" cannot go into a certificate"));
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let data = Data::new();
    fs::write(data.path(""), "a file").unwrap_err();
    let blocked = data.folder.path().join("data");
    fs::write(&blocked, "a file").unwrap();
    let error = data.start(NOW).unwrap_err().to_string();
    assert_eq!(error, format!("cannot make the folder {}", blocked.display()));
}

#[test]
fn two_first_starts_at_once_agree() {
    let data = Data::new();
    let tokens: Vec<TokenHash> = std::thread::scope(|scope| {
        let starts: Vec<_> =
            (0..4).map(|_| scope.spawn(|| data.start(NOW).unwrap().admin)).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    assert!(tokens.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn debug_shows_no_secret() {
    let data = Data::new();
    let home = data.start(NOW).unwrap();
    let token = data.text(ADMIN_TOKEN);
    let shown = format!("{home:?}");
    assert!(!shown.contains("PRIVATE") && !shown.contains(token.trim()));
}
