//! Telemetry between machines and on the disk. Start at [`wire`]: what arrives from agents, collectors and
//! other Prometheus servers, as samples of `tombolo_series`; then [`store`], where they last; then [`api`],
//! which answers as Prometheus does, and [`engine`], which answers policies.

pub mod api;
pub mod engine;
pub mod store;
pub mod wire;
