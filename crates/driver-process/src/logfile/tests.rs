//! What is kept of what an instance writes.

use expect_test::{Expect, expect};

use super::*;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn shown(folder: &Path) -> String {
    let mut text = String::new();
    for number in numbers(folder) {
        text += &format!("{number}\n");
        text += &fs::read_to_string(path(folder, number)).unwrap();
    }
    text
}

#[track_caller]
fn check(pieces: &[(Source, &str)], expected: Expect) {
    let folder = tempfile::tempdir().unwrap();
    let limits = LogLimits { file_bytes_max: 20, files_max: 2 };
    let mut writer = Writer::new(folder.path().to_owned(), limits);
    for (source, text) in pieces {
        writer.take(*source, text.as_bytes(), at(1));
    }
    let tail = writer.finish(at(2));
    expected.assert_eq(&format!("{}{tail:?}\n", shown(folder.path())));
}

#[test]
fn lines_are_put_together_and_the_last_needs_no_end() {
    use Source::{Stderr, Stdout};
    check(
        &[(Stdout, "he"), (Stderr, "oops\n"), (Stdout, "llo\nend")],
        expect![[r#"
        1
        1000 e oops
        1000 o hello
        2
        2000 o end
        ["oops", "hello", "end"]
    "#]],
    );
}

#[test]
fn the_oldest_file_goes_when_there_are_too_many() {
    let lines: Vec<String> = (0..9).map(|n| format!("line {n}\n")).collect();
    let pieces: Vec<_> = lines.iter().map(|line| (Source::Stdout, line.as_str())).collect();
    check(
        &pieces,
        expect![[r#"
        4
        1000 o line 6
        1000 o line 7
        5
        1000 o line 8
        ["line 0", "line 1", "line 2", "line 3", "line 4", "line 5", "line 6", "line 7", "line 8"]
    "#]],
    );
}

#[test]
fn a_line_without_end_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(folder.path().to_owned(), LogLimits::default());
    writer.take(Source::Stdout, &vec![b'x'; 3 * LINE_BYTES_MAX + 1], at(1));
    writer.finish(at(1));
    let text = shown(folder.path());
    let lengths: Vec<usize> =
        text.lines().skip(1).map(|line| read_line(line.as_bytes()).unwrap().text.len()).collect();
    assert_eq!(lengths, [LINE_BYTES_MAX, LINE_BYTES_MAX, LINE_BYTES_MAX, 1]);
}

#[test]
fn what_could_not_be_written_is_told_when_it_can_be_again() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("log");
    let mut writer = Writer::new(missing.clone(), LogLimits::default());
    writer.take(Source::Stdout, b"one\ntwo\n", at(1));
    fs::create_dir(&missing).unwrap();
    writer.take(Source::Stdout, b"three\n", at(2));
    expect![[r#"
        1

        2000 e [tombolo] 2 lines are lost: the disk was full
        2000 o three
    "#]]
    .assert_eq(&shown(&missing));
}

#[test]
fn a_line_is_read_as_it_was_written() {
    let line = read_line(b"1500 e two  words ").unwrap();
    assert_eq!(line.at, Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1500)));
    assert_eq!(line.source, Source::Stderr);
    assert_eq!(&line.text[..], b"two  words ");
    for torn in ["", "1500", "1500 ", "1500 x y", "x o y", " o y", "99999999999999999999 o y"] {
        assert_eq!(read_line(torn.as_bytes()), None, "{torn}");
    }
}

#[test]
fn the_tail_is_safe_to_print() {
    assert_eq!(readable(b"\x1b[2Jgone\xff\r"), " [2Jgone\u{fffd}");
    assert_eq!(readable(&[0xff; 1000]).len(), 255);
}
