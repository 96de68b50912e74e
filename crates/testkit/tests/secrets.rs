//! No value of a Secret lies in clear in what the real server leaves on a disk: its store, a backup, its log.

use std::fs;
use std::path::{Path, PathBuf};

use tombolo_testkit::Tombolo;

/// A server with a Secret in which a value stands that is nowhere else.
struct Planted {
    tombolo: Tombolo,
    marker: String,
}

impl Planted {
    async fn start(arguments: &[&str]) -> Planted {
        let tombolo = Tombolo::start_with(arguments).await;
        // Long enough never to come up by chance; the process id tells servers of one run apart.
        let marker = format!("marker-{}-{}", std::process::id(), tombolo.process_id());
        let text = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: db}}\nstringData: {{password: {marker}}}\n"
        );
        let file = tombolo.file("secret.yaml", &text);
        tombolo.shell(&["apply", "-f", &file.display().to_string()]).await.ok();
        fs::remove_file(file).expect("it is ours");
        Planted { tombolo, marker }
    }

    fn path(&self, name: &str) -> String {
        self.folder().join(name).display().to_string()
    }

    /// With the data, the log and whatever else the server and the shell have written.
    fn folder(&self) -> PathBuf {
        self.tombolo.data().parent().expect("a folder around it").to_owned()
    }

    /// As it was given, and as the API shows it.
    fn is_in_clear(&self, path: &Path) -> bool {
        let bytes = fs::read(path).expect("it can be read");
        let within = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        within(&self.marker) || within(base64(self.marker.as_bytes()).trim_end_matches('='))
    }

    async fn is_known(&self) {
        let shown = self.tombolo.shell(&["get", "secret", "db", "-o", "json"]).await.ok();
        assert!(shown.contains(base64(self.marker.as_bytes()).as_str()), "{shown}");
    }
}

#[tokio::test]
async fn a_secret_is_found_in_no_file_of_the_server() {
    let mut planted = Planted::start(&[]).await;
    let (key, backup) = (planted.path("backup.key"), planted.path("monday.backup"));
    planted.tombolo.shell(&["backup", "keygen", &key]).await.ok();
    planted.tombolo.shell(&["backup", &backup, "--key-file", &key]).await.ok();
    planted.is_known().await;
    planted.tombolo.stop().await;
    let found: Vec<PathBuf> =
        files(&planted.folder()).into_iter().filter(|file| planted.is_in_clear(file)).collect();
    assert_eq!(found, [] as [PathBuf; 0]);
    let store = planted.tombolo.data().join("store.redb");
    assert!(store.exists() && Path::new(&backup).exists());

    planted.tombolo.restart().await;
    planted.is_known().await;
    let plain = planted.path("plain.backup");
    planted.tombolo.shell(&["backup", &plain, "--plain"]).await.ok();
    assert!(planted.is_in_clear(Path::new(&plain)), "or this test looks for the wrong thing");
}

#[tokio::test]
async fn a_backup_comes_back_with_its_own_key_only() {
    let planted = Planted::start(&[]).await;
    let (key, other) = (planted.path("backup.key"), planted.path("other.key"));
    let backup = planted.path("monday.backup");
    let refused = planted.tombolo.shell(&["backup", &backup]).await;
    assert!(refused.code == Some(2) && refused.stderr.contains("--plain"), "{refused:?}");
    for file in [&key, &other] {
        planted.tombolo.shell(&["backup", "keygen", file]).await.ok();
    }
    planted.tombolo.shell(&["backup", &backup, "--key-file", &key]).await.ok();
    planted.tombolo.shell(&["delete", "secret", "db", "--yes"]).await.ok();

    for (arguments, told) in
        [(vec![], "is encrypted"), (vec!["--key-file", &other], "was encrypted with another key")]
    {
        let refused =
            planted.tombolo.shell(&[vec!["restore", &backup, "--yes"], arguments].concat()).await;
        assert!(refused.code == Some(1) && refused.stderr.contains(told), "{refused:?}");
    }
    let whole = fs::read(&backup).expect("written");
    let cut = planted.path("cut.backup");
    fs::write(&cut, &whole[..whole.len() - 1]).expect("written");
    let refused = planted.tombolo.shell(&["restore", &cut, "--yes", "--key-file", &key]).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("cut off"), "{refused:?}");

    planted.tombolo.shell(&["restore", &backup, "--yes", "--key-file", &key]).await.ok();
    planted.is_known().await;
}

#[tokio::test]
async fn a_server_without_its_key_says_so_and_makes_no_other() {
    let mut planted = Planted::start(&[]).await;
    planted.tombolo.stop().await;
    let (key, elsewhere) = (planted.tombolo.data().join("secrets.key"), planted.path("moved.key"));
    fs::rename(&key, &elsewhere).expect("it was made at the first start");
    let data = planted.tombolo.data().display().to_string();
    let up = ["up", "--no-agent", "--listen", "127.0.0.1:0", "--data", &data];
    let refused = planted.tombolo.shell(&up).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("secrets.key back"), "{refused:?}");
    assert!(!key.exists(), "a new key would open nothing");

    let other = planted.path("other.key");
    planted.tombolo.shell(&["backup", "keygen", &other]).await.ok();
    let with_other = [up.as_slice(), &["--secret-key-file", &other]].concat();
    let refused = planted.tombolo.shell(&with_other).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("another key"), "{refused:?}");

    planted.tombolo.restart_with(&["--secret-key-file", &elsewhere]).await;
    planted.is_known().await;
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).expect("it can be read").map(|entry| entry.expect("one").path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .filter(|path| path.is_file())
        .collect()
}

/// As in `data` of a Secret.
fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
