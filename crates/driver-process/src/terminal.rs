//! A terminal for a command inside an instance. We hold the near end, the command opens the far end by
//! its path.

use std::fs::File;
use std::future::Future;
use std::io;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::sync::mpsc;
use tombolo_driver::{Error, ExecSession, Exit, Result, Source, TerminalSize};

use crate::exec::chunks;

#[derive(Debug)]
pub(crate) struct Terminal {
    own: File,
    path: String,
}

impl Terminal {
    pub(crate) fn open(size: TerminalSize) -> Result<Terminal> {
        open(size).map_err(|error| Error::io("open a terminal", error))
    }

    /// The end that the command opens.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// A session with this terminal, around a command whose exit is waited for.
    pub(crate) fn session<Waited>(self, exit: impl FnOnce() -> Waited) -> Result<ExecSession>
    where
        Waited: Future<Output = Result<Exit>> + Send + 'static,
    {
        let clone = || self.own.try_clone().map_err(|error| Error::io("use a terminal", error));
        let (input, output, sized) = (clone()?, clone()?, clone()?);
        let (resize, mut sizes) = mpsc::channel(1);
        // Ends with the session, which holds the other end of the channel.
        tokio::spawn(async move {
            while let Some(size) = sizes.recv().await {
                _ = tcsetwinsize(&sized, window(size));
            }
        });
        Ok(ExecSession {
            input: Box::pin(tokio::fs::File::from_std(input)),
            output: chunks(Some(tokio::fs::File::from_std(output)), Source::Stdout),
            resize,
            exit: Box::pin(exit()),
        })
    }
}

fn open(size: TerminalSize) -> io::Result<Terminal> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let own = openpt(flags)?;
    grantpt(&own)?;
    unlockpt(&own)?;
    tcsetwinsize(&own, window(size))?;
    let path = ptsname(&own, Vec::new())?.to_string_lossy().into_owned();
    Ok(Terminal { own: File::from(own), path })
}

fn window(size: TerminalSize) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
}
