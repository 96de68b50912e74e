//! Fuzzes the parser `alto`; see the table in testkit.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tombolo_testkit::parsers::read("alto", data));
