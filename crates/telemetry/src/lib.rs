//! Telemetry between machines and on the disk. Start at [`wire`]: what arrives from agents, collectors and
//! other Prometheus servers, as samples of `tombolo_series`; then [`store`], where they last; then [`api`],
//! which answers as Prometheus does.

pub mod api;
pub mod store;
pub mod wire;
