//! Fuzzes the parser `descriptor-charity-tosca`; see the table in testkit.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tombolo_testkit::parsers::read("descriptor-charity-tosca", data));
