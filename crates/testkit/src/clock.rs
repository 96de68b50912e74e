//! A time of day for one program of a test, which can be set while it runs. The clocks that only run
//! forward are left alone. Start at [`Clock::make`].

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::tools;

/// What the program asks for the time of day, instead of the C library. The offset is read each time.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long offset(void) {
    char text[32];
    const char *path = getenv("TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length < 0) return 0;
    text[length] = 0;
    return atoll(text);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    long failed = syscall(SYS_clock_gettime, clock, time);
    if (failed) return -1;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += offset();
    return 0;
}

time_t time(time_t *kept) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept) *kept = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}
"#;

#[derive(Debug)]
pub struct Clock {
    folder: TempDir,
}

impl Clock {
    /// Nothing where there is no compiler; then `test` is noted as skipped.
    pub fn make(test: &str) -> Option<Clock> {
        let compiler = tools::program(test, "cc")?;
        let clock = Clock { folder: tempfile::tempdir().expect("a temporary folder can be made") };
        let source = clock.folder.path().join("clock.c");
        std::fs::write(&source, SOURCE).expect("a file can be written");
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(clock.library()).arg(source);
        let built = command.output().expect("the compiler starts");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Some(clock)
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("clock.so")
    }

    fn offset(&self) -> PathBuf {
        self.folder.path().join("offset")
    }

    /// What a program must find in its environment to live by this clock.
    pub fn environment(&self) -> Vec<(String, String)> {
        let path = |path: PathBuf| path.display().to_string();
        vec![
            ("LD_PRELOAD".to_owned(), path(self.library())),
            ("TEST_CLOCK".to_owned(), path(self.offset())),
        ]
    }

    /// From now on the clock is so far ahead of the machine's.
    pub fn set_ahead(&self, by: Duration) {
        let draft = self.folder.path().join("draft");
        std::fs::write(&draft, by.as_secs().to_string()).expect("a file can be written");
        // Whole, whoever reads it at this moment.
        std::fs::rename(draft, self.offset()).expect("a file can be renamed");
    }
}
