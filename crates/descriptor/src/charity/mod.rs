//! The two formats of CHARITY: the orchestration resource and the TOSCA blueprint that becomes part
//! of one.

mod network;
pub(crate) mod orchestration;
pub(crate) mod tosca;

/// On an App: whose application it is.
const ANNOTATION_OWNER: &str = "charity-project.eu/owner";
/// On an App: the version of the blueprint.
const ANNOTATION_VERSION: &str = "charity-project.eu/version";

/// The place of a variable of a component's container in its App.
fn environment_path(component: &str, variable: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    match variable.chars().all(plain) {
        true => format!("{component}.run[0].container.env.{variable}"),
        false => format!("{component}.run[0].container.env[{variable}]"),
    }
}
