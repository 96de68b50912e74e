//! A supervisor that is killed, wherever it was between a pipe and the log.

use std::io::Write as _;
use std::time::SystemTime;

use rustix::pipe::{PipeFlags, pipe_with};
use tombolo_driver::Source;

use super::*;
use crate::launch::LogLimits;
use crate::logfile::{self, Writer};

struct Rig {
    folder: tempfile::TempDir,
    pipe: std::os::fd::OwnedFd,
    instance: File,
}

impl Rig {
    fn new() -> Rig {
        let (pipe, instance) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        Rig { folder: tempfile::tempdir().unwrap(), pipe, instance: instance.into() }
    }

    fn says(&mut self, text: &str) {
        self.instance.write_all(text.as_bytes()).unwrap();
    }

    fn spools(&self) -> [PathBuf; 2] {
        ["out.spool", "err.spool"].map(|name| self.folder.path().join(name))
    }

    fn begin(&self) -> Writer {
        Writer::begin(self.folder.path().to_owned(), LogLimits::default(), self.spools())
    }

    fn adopt(&self) -> Writer {
        let now = SystemTime::now();
        Writer::adopt(self.folder.path().to_owned(), LogLimits::default(), self.spools(), now)
    }

    fn take(&self, writer: &mut Writer) {
        let mut buffer = vec![0; 4096];
        while writer.take_from(Source::Stdout, &self.pipe, &mut buffer, SystemTime::now()) {}
    }

    fn log(&self) -> String {
        let text = fs::read(logfile::path(self.folder.path(), 1)).unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let text = |line| logfile::read_line(line).map_or("TORN".into(), |line| line.text);
        lines.map(|line| String::from_utf8_lossy(&text(line)).into_owned() + "\n").collect()
    }
}

#[test]
fn what_was_taken_and_not_written_is_written_by_the_next() {
    let mut rig = Rig::new();
    rig.says("one\ntwo\nthr");
    let mut spool = Spool::create(&rig.spools()[0]).unwrap();
    assert_eq!(spool.take(&rig.pipe, &mut [0; 64]), 11);
    drop(spool);
    let mut writer = rig.adopt();
    assert_eq!(rig.log(), "one\ntwo\n");
    // And once more, with half a line on its way.
    drop(writer);
    writer = rig.adopt();
    rig.says("ee\n");
    rig.take(&mut writer);
    assert_eq!(rig.log(), "one\ntwo\nthree\n");
}

#[test]
fn a_write_that_was_cut_off_anywhere_is_done_once() {
    let line = b"1000 o two\n";
    for written in 0..=line.len() {
        let mut rig = Rig::new();
        rig.says("one\n");
        rig.take(&mut rig.begin());
        rig.says("two\n");
        let path = logfile::path(rig.folder.path(), 1);
        let length = fs::metadata(&path).unwrap().len();
        let (mut spool, mark) = Spool::open(&rig.spools()[0]).unwrap();
        assert_eq!(mark, None);
        spool.take(&rig.pipe, &mut [0; 64]);
        spool.begin(Mark { number: 1, length });
        let mut log = OpenOptions::new().append(true).open(&path).unwrap();
        log.write_all(&line[..written]).unwrap();
        rig.adopt();
        assert_eq!(rig.log(), "one\ntwo\n", "{written} bytes were written");
        rig.adopt();
        assert_eq!(rig.log(), "one\ntwo\n", "{written} bytes were written");
    }
}

#[test]
fn what_is_written_is_dropped_and_the_file_stays_short() {
    let mut rig = Rig::new();
    let mut writer = rig.begin();
    let mut expected = String::new();
    for number in 0..2000 {
        // The end of one line and the begin of the next: there never is nothing on its way.
        let text = format!("{number} {}", "x".repeat(100));
        rig.says(&format!("{text}\n{text}"));
        expected += &format!("{text}\n{text}");
        rig.take(&mut writer);
        if number % 500 == 0 {
            writer = rig.adopt();
        }
    }
    let (whole, _) = expected.rsplit_once('\n').unwrap();
    assert_eq!(rig.log(), format!("{whole}\n"));
    let length = fs::metadata(&rig.spools()[0]).unwrap().len();
    assert!(length < 2 * SETTLED_BYTES_MAX, "{length} bytes");
}

#[test]
fn where_it_cannot_be_written_the_pipe_is_read_all_the_same() {
    let mut rig = Rig::new();
    rig.says("one\n");
    let spool = Spool::create(&rig.spools()[0]).unwrap();
    // A file that takes nothing, as on a full disk.
    let file = File::open(&rig.spools()[0]).unwrap();
    let mut full = Spool { file, ..spool };
    let mut buffer = [0; 64];
    assert_eq!(full.take(&rig.pipe, &mut buffer), 4);
    assert_eq!(&buffer[..4], b"one\n");
}
