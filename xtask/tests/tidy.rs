//! The workspace is tidy. The same as `cargo xtask tidy`, so that nobody has to remember it.

#[test]
fn the_workspace_is_tidy() {
    let findings = xtask::tidy::check(&xtask::root()).unwrap();
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "\n{}\n", lines.join("\n"));
}
