//! Telemetry between machines. Start at [`wire`]: what arrives from agents, collectors and other
//! Prometheus servers, as samples of `tombolo_series`. No clock and no runtime: who calls has them.

pub mod wire;
