//! The supervisor as a program of its own, for the tests of this crate. In the product it is
//! `tombolo supervise`, from the same function.

use std::process::ExitCode;

fn main() -> ExitCode {
    tombolo_driver_process::supervise::main(std::env::args_os().skip(1))
}
