//! Fuzzes the parser `stamp`; see the table in testkit.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tombolo_testkit::parsers::read("stamp", data));
