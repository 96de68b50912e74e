//! `tombolo up`: the embedded default. Called by `programs::run`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use crate::{
    failure::{Exit, Failure},
    places,
};

/// Start a control plane on this machine.
///
/// The first start makes a certificate authority, an admin token and a kubeconfig.
#[derive(Args, Debug)]
pub(crate) struct UpArgs {
    /// Keep everything here; the user's data folder if left out.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Where to listen. Loopback takes plain HTTP and TLS, any other address TLS alone.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7070")]
    pub(crate) listen: SocketAddr,
}

pub(crate) fn run(args: UpArgs) -> Result<Exit, Failure> {
    let data = args.data.or_else(places::default_data_folder).ok_or_else(|| {
        Failure::usage("neither HOME nor XDG_DATA_HOME is set").hint("name a folder with --data")
    })?;
    Err(Failure::failed(format!(
        "this build has no server to start at {} over {}",
        args.listen,
        data.display()
    )))
}
