//! The terminal in front of which somebody sits: its size, and raw mode while a program on the other
//! side has it. Called by `exec`.

use std::io;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tombolo_model::errand::Size;

/// Passes every key on as it is, until it is dropped.
#[derive(Debug)]
pub(crate) struct RawMode {
    before: Termios,
}

impl RawMode {
    pub(crate) fn enter() -> io::Result<RawMode> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(RawMode { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that is gone needs no care.
        _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// What is typed is not shown, until it is dropped.
#[derive(Debug)]
pub(crate) struct Unseen {
    before: Termios,
}

impl Unseen {
    pub(crate) fn enter() -> io::Result<Unseen> {
        let before = tcgetattr(io::stdin())?;
        let mut unseen = before.clone();
        unseen.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Now, &unseen)?;
        Ok(Unseen { before })
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        // A terminal that is gone needs no care.
        _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Nothing if there is no terminal, or it does not say.
pub(crate) fn size() -> Option<Size> {
    let window = tcgetwinsize(io::stdin()).or_else(|_| tcgetwinsize(io::stdout())).ok()?;
    let size = Size { columns: window.ws_col, rows: window.ws_row };
    (size.columns > 0 && size.rows > 0).then_some(size)
}
