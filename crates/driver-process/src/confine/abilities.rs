//! What this machine lets the agent do to confine instances. Nobody can say without trying: a kernel
//! may lack a mechanism, and a container or a setting may forbid it. So a process of our own tries
//! all of it and tells ([`tell`]); the driver starts that process once and reads it ([`Abilities`]).

use std::io::{self, Write as _};
use std::path::Path;

use rustix::process::geteuid;
use rustix::thread::set_no_new_privs;
use serde::{Deserialize, Serialize};

use super::{Manner, View, calls, scopes, separate, view};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Abilities {
    /// The agent is root, so that instances can have users of their own.
    pub(crate) own_users: bool,
    /// Why an instance cannot have a view of its own; nothing if it can.
    pub(crate) no_view: Option<String>,
    /// Why system calls cannot be filtered; nothing if they can.
    pub(crate) no_filter: Option<String>,
    /// The kernel keeps signals inside an instance, whoever its user is.
    pub(crate) signals_stay: bool,
}

/// Tries everything in this process, and writes what came of it to the standard output. `folder` is
/// an empty one, for a view.
pub(crate) fn tell(folder: &Path) -> io::Result<()> {
    let own_users = geteuid().is_root();
    let manner = if own_users { Manner::OwnUser } else { Manner::UserNamespace };
    let view = View {
        at: folder.to_owned(),
        tmp: folder.to_owned(),
        reads: Vec::new(),
        writes: Vec::new(),
        hides: Vec::new(),
    };
    let viewed = separate(manner).and_then(|()| view::build(&view, manner));
    set_no_new_privs(true)?;
    let signals_stay = scopes::are_known();
    let filtered = calls::refuse(manner);
    let abilities = Abilities {
        own_users,
        no_view: viewed.err().map(|error| error.to_string()),
        no_filter: filtered.err().map(|error| error.to_string()),
        signals_stay,
    };
    io::stdout().write_all(&serde_json::to_vec(&abilities)?)
}
