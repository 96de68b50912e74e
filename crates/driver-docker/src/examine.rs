//! How an engine confines its containers, as it says itself. Asked without a runtime, for the checks of a
//! machine: by the agent at each look at its machine, and by `tombolo agent doctor`.

use std::io;
use std::path::Path;

use serde_json::Value;

use crate::guard::http;

/// The security options of the engine at this socket, in its own words: `name=seccomp,profile=builtin`.
pub fn security_options(socket: &Path) -> io::Result<Vec<String>> {
    let body = http::ask(socket, "GET", "/info")?.ok()?;
    let info: Value = serde_json::from_slice(&body)?;
    let options = info["SecurityOptions"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(options.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}
