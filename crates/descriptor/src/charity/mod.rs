//! The two formats of CHARITY.

pub(crate) mod orchestration;
pub(crate) mod tosca;
