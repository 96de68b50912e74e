//! The two formats of CHARITY: the orchestration resource and the TOSCA blueprint that becomes part
//! of one.

mod network;
pub(crate) mod orchestration;
pub(crate) mod tosca;

/// On an App: whose application it is.
const ANNOTATION_OWNER: &str = "charity-project.eu/owner";
/// On an App: the version of the blueprint.
const ANNOTATION_VERSION: &str = "charity-project.eu/version";
