//! What can be typed about kinds: `explain`, `schema` and `crds`. Part of [`super`].

use clap::Args;

/// Say what a kind and its fields mean.
///
/// Asks the server; for Tombolo's own kinds no server is needed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo explain app
  tombolo explain app.spec.components
  tombolo explain node --recursive")]
pub(crate) struct ExplainArgs {
    /// KIND, or KIND.field.path.
    #[arg(value_name = "KIND[.FIELD…]")]
    pub(crate) what: String,
    /// Show the fields of fields as well, without their texts.
    #[arg(long)]
    pub(crate) recursive: bool,
}

/// Print the JSON Schema of one of Tombolo's kinds, for editors. Needs no server.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo schema app > app.schema.json")]
pub(crate) struct SchemaArgs {
    /// One of Tombolo's kinds.
    pub(crate) kind: String,
}

/// Print Tombolo's kinds as CustomResourceDefinitions, for a Kubernetes cluster. Needs no server.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo crds | kubectl apply --server-side -f -")]
pub(crate) struct CrdsArgs {}
