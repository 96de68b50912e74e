//! Fuzzes the parser `remote-write-1`; see the table in testkit.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tombolo_testkit::parsers::read("remote-write-1", data));
