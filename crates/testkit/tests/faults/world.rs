//! Parts of the world that can be broken: a link between two network namespaces, and a small disk.
//! Both need root; without it they are not made, and the test is noted as skipped.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tombolo_testkit::tools;

/// Two links of one test program are two networks.
static NEXT: AtomicU8 = AtomicU8::new(0);

/// A namespace that reaches this one over a pair of interfaces, and nothing else.
#[derive(Debug)]
pub(crate) struct Link {
    name: String,
    outside: String,
    pub(crate) address: Ipv4Addr,
}

impl Link {
    pub(crate) fn make(test: &str) -> Option<Link> {
        if !rustix::process::geteuid().is_root() {
            tools::skip(test, "a network namespace takes root");
            return None;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let name = format!("tombolo-{process}-{number}");
        // An interface has 15 letters at most.
        let (outside, inside) = (format!("tb{process}o{number}"), format!("tb{process}i{number}"));
        let [_, _, third, fourth] = process.to_be_bytes();
        // Of a range that is for tests of devices: nobody routes it.
        let net = |last: u8| Ipv4Addr::new(198, 18 + (third & 1), fourth, (number << 2) | last);
        let link = Link { name: name.clone(), outside: outside.clone(), address: net(1) };
        let steps = [
            format!("netns add {name}"),
            format!("link add {outside} type veth peer name {inside} netns {name}"),
            format!("addr add {}/30 dev {outside}", net(1)),
            format!("link set {outside} up"),
            format!("-n {name} addr add {}/30 dev {inside}", net(2)),
            format!("-n {name} link set {inside} up"),
            format!("-n {name} link set lo up"),
        ];
        for step in steps {
            if let Err(problem) = ip(&step) {
                tools::skip(test, &format!("ip {step}: {problem}"));
                return None;
            }
        }
        Some(link)
    }

    pub(crate) fn cut(&self) {
        ip(&format!("link set {} down", self.outside)).unwrap();
    }

    pub(crate) fn mend(&self) {
        ip(&format!("link set {} up", self.outside)).unwrap();
    }

    /// A command that runs on the far side.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name)).arg("--").arg(program);
        command
    }

    /// Brings connections from the far side to `server`, which listens on loopback alone, until the
    /// test ends. Returns the port.
    pub(crate) async fn forward(&self, server: String) -> u16 {
        let listener = TcpListener::bind((self.address, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move {
                    if let Ok(mut far) = TcpStream::connect(&server).await {
                        // Either side may end it; that is what connections are like.
                        drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
                    }
                });
            }
        });
        port
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        drop(ip(&format!("link del {}", self.outside)));
        drop(ip(&format!("netns del {}", self.name)));
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    let ran = Command::new("ip").args(arguments.split(' ')).output();
    let ran = ran.map_err(|error| error.to_string())?;
    match ran.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&ran.stderr).into_owned()),
    }
}

/// A file system in memory that is soon full.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: TempDir,
}

impl Disk {
    pub(crate) fn make(test: &str, mebibytes: u32) -> Option<Disk> {
        if !rustix::process::geteuid().is_root() {
            tools::skip(test, "a disk of one's own takes root");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("tombolo-disk-").tempdir().unwrap();
        let size = format!("size={mebibytes}m");
        let mount = ["-t", "tmpfs", "-o", &size, "tmpfs"];
        let ran = Command::new("mount").args(mount).arg(folder.path()).output().unwrap();
        if !ran.status.success() {
            tools::skip(test, &format!("mount: {}", String::from_utf8_lossy(&ran.stderr).trim()));
            return None;
        }
        Some(Disk { folder })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// To the last byte.
    pub(crate) fn fill(&self) {
        let mut file = File::create(self.ballast()).unwrap();
        let mut piece = vec![0; 64 * 1024];
        while !piece.is_empty() {
            if file.write_all(&piece).is_err() {
                piece.truncate(piece.len() / 2);
            }
        }
    }

    pub(crate) fn empty(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(self.path()).status());
    }
}
