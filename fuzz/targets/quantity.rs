//! Fuzzes the parser `quantity`; see the table in testkit.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tombolo_testkit::parsers::read("quantity", data));
