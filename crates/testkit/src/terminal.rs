//! A terminal with somebody in front of it: what they type, what they see, and how large it is. Made by
//! tests of what behaves otherwise at a terminal; start at [`Terminal::open`].

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::eventually;

#[derive(Debug)]
pub struct Terminal {
    keys: File,
    /// The end that programs have; held, so that what they wrote is not lost with them.
    screen: File,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub fn open(columns: u16, rows: u16) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let own = openpt(flags).expect("a terminal can be made");
        grantpt(&own).expect("it is ours");
        unlockpt(&own).expect("it is ours");
        let path = ptsname(&own, Vec::new()).expect("it has a name");
        let path = path.to_string_lossy().into_owned();
        let not_ours = i32::try_from(OFlags::NOCTTY.bits()).expect("flags are small");
        let mut options = OpenOptions::new();
        let screen = options.read(true).write(true).custom_flags(not_ours).open(path);
        let keys = File::from(own);
        let mut reads = keys.try_clone().expect("a file can be held twice");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sees = Arc::clone(&seen);
        // Ends with the terminal.
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = reads.read(&mut piece) {
                let mut seen = sees.lock().unwrap_or_else(PoisonError::into_inner);
                seen.extend_from_slice(&piece[..count]);
            }
        });
        let terminal = Terminal { keys, screen: screen.expect("it can be opened"), seen };
        terminal.resize(columns, rows);
        terminal
    }

    /// Starts a command that has this as its own terminal: keys and changes of size reach it as signals.
    pub fn start(&self, command: &Command) -> Child {
        let end = || Stdio::from(self.screen.try_clone().expect("a file can be held twice"));
        let mut leader = Command::new("setsid");
        leader.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => leader.env(name, value),
                None => leader.env_remove(name),
            };
        }
        leader.stdin(end()).stdout(end()).stderr(end());
        leader.spawn().expect("setsid starts")
    }

    pub fn types(&self, keys: &str) {
        (&self.keys).write_all(keys.as_bytes()).expect("a terminal takes keys");
    }

    /// The kernel tells whoever has the terminal.
    pub fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keys, size).expect("a terminal has a size");
    }

    /// Everything that was shown so far.
    pub fn text(&self) -> String {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&seen).into_owned()
    }

    pub async fn until(&self, text: &str) {
        eventually(&format!("the terminal shows {text:?}"), async || {
            self.text().contains(text).then_some(())
        })
        .await;
    }

    /// Whether it shows keys and takes whole lines, as a shell leaves it to people.
    pub fn is_for_people(&self) -> bool {
        let modes = tcgetattr(&self.screen).expect("a terminal has modes").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }
}
