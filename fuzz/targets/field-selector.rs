//! Fuzzes the parser `field-selector`; see the table in testkit.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tombolo_testkit::parsers::read("field-selector", data));
