//! The documents and files of the projects whose formats are read. They are not part of this
//! repository; a test over them says so and passes where they are not there.

use std::fs;

use tombolo_testkit::tools;

/// The text of a file in the shared folder. Without it, `test` is noted as skipped.
pub(crate) fn file(test: &str, path: &str) -> Option<String> {
    tools::shared(test, path).map(|file| fs::read_to_string(file).unwrap())
}
