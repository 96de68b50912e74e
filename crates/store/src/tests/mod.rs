//! Tests that need a simulated disk, which is no part of the API. The others are in `tests/`.

mod full_disk;
mod header;
mod power_cut;
