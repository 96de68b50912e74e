//! What can be typed about files: `apply`, `diff`, `convert` and `validate`. Part of [`super`].

use clap::Args;

use tombolo_descriptor::write::Target;
use tombolo_descriptor::{Format as Descriptor, Options};

use crate::files::Asked;
use crate::output::Format;

/// How files are read.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReadArgs {
    /// Read subfolders as well.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// The format of the files, if it is not recognised.
    #[arg(long, value_name = "FORMAT", value_parser = descriptor_format())]
    pub(crate) from: Option<Descriptor>,
    /// Also run the services that have this compose profile. May be repeated.
    #[arg(long, value_name = "PROFILE")]
    pub(crate) profile: Vec<String>,
}

impl ReadArgs {
    pub(crate) fn asked<'a>(&self, paths: &'a [String]) -> Asked<'a> {
        let options = Options { format: self.from, profiles: self.profile.clone() };
        Asked { paths, recursive: self.recursive, options }
    }
}

/// Create or change objects on the server, to match the files.
///
/// Server-side apply: only the fields in the files are touched, and the server says if somebody
/// else owns one of them. All files are read and checked before anything is sent. Descriptors of
/// other projects become Apps, and what an App cannot carry is told; `tombolo convert` shows the
/// result.
///
/// The Kubernetes objects of a folder belong together, one in each file or not; so do several compose
/// files, each laid over the one before. A Helm chart or a kustomization is rendered, with the helm,
/// kustomize or kubectl of this machine.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo apply -f app.yaml
  tombolo apply -f site/ -f apps.yaml
  tombolo apply -f compose.yaml -f compose.prod.yaml --profile debug
  tombolo apply -R -f manifests/
  generate | tombolo apply -f - --dry-run")]
pub(crate) struct ApplyArgs {
    /// A file, a folder of *.yaml, *.yml and *.json, or - for stdin. May be repeated.
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// Let the server check everything and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Take over fields that belong to somebody else.
    #[arg(long)]
    pub(crate) force_conflicts: bool,
    /// The name under which the server remembers who set a field.
    #[arg(long, value_name = "NAME", default_value = "tombolo")]
    pub(crate) field_manager: String,
}

/// Show what `apply` would change.
///
/// Exits with 0 if nothing would change, with 1 if something would.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo diff -f app.yaml
  tombolo diff -f apps/ && echo in sync")]
pub(crate) struct DiffArgs {
    /// A file, a folder of *.yaml, *.yml and *.json, or - for stdin. May be repeated.
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// Show the difference as if fields of others were taken over.
    #[arg(long)]
    pub(crate) force_conflicts: bool,
    /// The name under which `apply` would set the fields.
    #[arg(long, value_name = "NAME", default_value = "tombolo")]
    pub(crate) field_manager: String,
}

/// Turn a descriptor of any accepted format into another format. Needs no server.
///
/// What the target format cannot say is told on stderr, together with everything that was assumed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo convert icos-app.yaml > app.yaml
  tombolo convert --to compose app.yaml
  tombolo convert --from kubernetes --to icos deployment.yaml")]
pub(crate) struct ConvertArgs {
    /// A file, a folder of *.yaml, *.yml and *.json, or - for stdin.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// The format to write.
    #[arg(long, value_name = "FORMAT", default_value = "native", value_parser = target_format())]
    pub(crate) to: Target,
    /// Write only this app.
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Do not report what was left out, assumed or changed.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Say what is wrong with descriptors, where, and how to fix it. Needs no server.
///
/// Exits with 0 if all files can be used, with 1 if one cannot.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo validate app.yaml
  tombolo validate --notes descriptors/
  tombolo validate -o json app.yaml    (with places, for editors)")]
pub(crate) struct ValidateArgs {
    /// A file, a folder of *.yaml, *.yml and *.json, or - for stdin.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// Also show what an App cannot carry and what was assumed.
    #[arg(long)]
    pub(crate) notes: bool,
    /// How to print: table (for people) or json.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Listed in the help and by the completion.
pub(super) fn descriptor_format() -> impl clap::builder::TypedValueParser<Value = Descriptor> {
    use clap::builder::{PossibleValuesParser, TypedValueParser as _};
    PossibleValuesParser::new(Descriptor::ALL.iter().map(|format| format.as_str()))
        .try_map(|word| word.parse::<Descriptor>())
}

fn target_format() -> impl clap::builder::TypedValueParser<Value = Target> {
    use clap::builder::{PossibleValuesParser, TypedValueParser as _};
    PossibleValuesParser::new(Target::ALL.iter().map(|target| target.as_str()))
        .try_map(|word| word.parse::<Target>())
}
