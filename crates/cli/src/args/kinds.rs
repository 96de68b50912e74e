//! What can be typed about kinds: `explain`, `api-resources`, `schema` and `crds`. Part of [`super`].

use clap::Args;

use crate::output::Format;

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
    /// Also show the fields within fields, without their descriptions.
    #[arg(long)]
    pub(crate) recursive: bool,
}

/// List the kinds that the server has, with their short names.
#[derive(Args, Debug)]
#[command(visible_alias = "kinds")]
#[command(after_help = "\
Examples:
  tombolo api-resources
  tombolo api-resources -o name")]
pub(crate) struct ApiResourcesArgs {
    /// How to print: table, name, json or yaml.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
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
