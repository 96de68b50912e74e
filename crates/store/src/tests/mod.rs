//! Tests that need a simulated disk, which is no part of the API. The others are in `tests/`.

mod full_disk;
mod header;
mod lying_disk;
mod power_cut;
