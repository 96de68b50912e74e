//! Apps back into the formats that people bring.

mod emit;
