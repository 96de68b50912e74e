//! The tables themselves, and machines that keep or break the rules.

use expect_test::expect_file;

use super::*;

#[test]
fn the_page_for_people_shows_the_tables() {
    expect_file!["../../../../docs/security-checks.md"].assert_eq(&document::render());
}
