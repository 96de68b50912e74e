//! Limits on processor, memory and processes, in the words of both versions of cgroups.

use std::fs;
use std::io;
use std::path::PathBuf;

use tombolo_model::needs::Resources;

/// The time over which the kernel counts processor time, in microseconds: its own default.
const PERIOD_MICROS: u64 = 100_000;
/// The kernel takes no less.
const QUOTA_MICROS_MIN: u64 = 1_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    cpu_millis: Option<u64>,
    memory_bytes: Option<u64>,
    processes: Option<u64>,
}

impl Limits {
    /// For finding out whether limits can be set at all.
    pub(crate) const SMALLEST: Limits =
        Limits { cpu_millis: Some(1000), memory_bytes: Some(1 << 20), processes: Some(1) };

    /// A limit of nothing is none.
    pub(crate) fn of(resources: &Resources, processes: Option<u64>) -> Limits {
        Limits {
            cpu_millis: resources.cpu.map(|cpu| cpu.millis()).filter(|millis| *millis > 0),
            memory_bytes: resources.memory.map(|bytes| bytes.get()).filter(|bytes| *bytes > 0),
            processes,
        }
    }

    /// Sets the limits in whichever group can; a sentence for each that none can.
    pub(super) fn set(self, made: &[PathBuf], trouble: Option<&io::Error>) -> Vec<String> {
        let wanted = [
            ("processor", self.cpu_millis.map(cpu_settings)),
            ("memory", self.memory_bytes.map(memory_settings)),
        ];
        if let Some(settings) = self.processes.map(process_settings) {
            // Where it cannot be set, the kernel counts by user instead (`confine`).
            _ = set_one(made, &settings);
        }
        let mut notes = Vec::new();
        for (what, settings) in wanted {
            let Some(settings) = settings else { continue };
            if let Err(error) = set_one(made, &settings) {
                let why = trouble.unwrap_or(&error);
                notes.push(format!("there is no limit on {what}: cgroups cannot be used: {why}"));
            }
        }
        notes
    }
}

/// The file of one version, what goes into it, and what goes with it where the kernel has that too.
#[derive(Debug)]
pub(super) struct Setting {
    file: &'static str,
    value: String,
    also: Option<(&'static str, String)>,
}

fn cpu_settings(millis: u64) -> [Setting; 2] {
    let quota = millis.saturating_mul(PERIOD_MICROS / 1000).max(QUOTA_MICROS_MIN);
    [
        Setting { file: "cpu.max", value: format!("{quota} {PERIOD_MICROS}"), also: None },
        Setting { file: "cpu.cfs_quota_us", value: quota.to_string(), also: None },
    ]
}

/// What may not be in memory shall not be on disk instead.
pub(super) fn memory_settings(bytes: u64) -> [Setting; 2] {
    let value = bytes.to_string();
    let unified = Some(("memory.swap.max", "0".to_owned()));
    let old = Some(("memory.memsw.limit_in_bytes", value.clone()));
    [
        Setting { file: "memory.max", value: value.clone(), also: unified },
        Setting { file: "memory.limit_in_bytes", value, also: old },
    ]
}

/// Both versions have the same name for it.
pub(super) fn process_settings(count: u64) -> [Setting; 2] {
    let setting = || Setting { file: "pids.max", value: count.to_string(), also: None };
    [setting(), setting()]
}

/// The share of the processor, of what a group gets that says nothing.
pub(super) fn share_settings(percent: u64) -> [Setting; 2] {
    let setting =
        |file, usual: u64| Setting { file, value: (usual * percent / 100).to_string(), also: None };
    [setting("cpu.weight", 100), setting("cpu.shares", 1024)]
}

pub(super) fn set_one(made: &[PathBuf], settings: &[Setting; 2]) -> io::Result<()> {
    for folder in made {
        for setting in settings {
            let path = folder.join(setting.file);
            if !path.exists() {
                continue;
            }
            fs::write(&path, &setting.value)?;
            if let Some((file, value)) = &setting.also {
                // Kernels without swap do not have the file; the limit on memory alone must do.
                _ = fs::write(folder.join(file), value);
            }
            return Ok(());
        }
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel offers no controller for it"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn both_versions_are_told_the_same() {
        let shown = format!(
            "{:#?}\n{:#?}\n{:#?}",
            cpu_settings(1500),
            cpu_settings(1),
            memory_settings(4096)
        );
        expect![[r#"
            [
                Setting {
                    file: "cpu.max",
                    value: "150000 100000",
                    also: None,
                },
                Setting {
                    file: "cpu.cfs_quota_us",
                    value: "150000",
                    also: None,
                },
            ]
            [
                Setting {
                    file: "cpu.max",
                    value: "1000 100000",
                    also: None,
                },
                Setting {
                    file: "cpu.cfs_quota_us",
                    value: "1000",
                    also: None,
                },
            ]
            [
                Setting {
                    file: "memory.max",
                    value: "4096",
                    also: Some(
                        (
                            "memory.swap.max",
                            "0",
                        ),
                    ),
                },
                Setting {
                    file: "memory.limit_in_bytes",
                    value: "4096",
                    also: Some(
                        (
                            "memory.memsw.limit_in_bytes",
                            "4096",
                        ),
                    ),
                },
            ]"#]]
        .assert_eq(&shown);
    }

    /// Folders with these files, and what is in them once both limits are set.
    #[track_caller]
    fn check(groups: &[&[&str]], expected: expect_test::Expect) {
        let root = tempfile::tempdir().unwrap();
        let made: Vec<PathBuf> =
            (0..groups.len()).map(|number| root.path().join(number.to_string())).collect();
        for (folder, files) in made.iter().zip(groups) {
            fs::create_dir(folder).unwrap();
            files.iter().for_each(|file| fs::write(folder.join(file), "max").unwrap());
        }
        let limits = Limits { cpu_millis: Some(500), memory_bytes: Some(4096), processes: Some(7) };
        let mut lines = limits.set(&made, None);
        for (folder, files) in made.iter().zip(groups) {
            let read = |file: &&str| fs::read_to_string(folder.join(file)).unwrap();
            lines.extend(files.iter().map(|file| format!("{file} = {}", read(file))));
        }
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn a_unified_group_takes_both_limits() {
        check(
            &[&["cpu.max", "memory.max", "memory.swap.max", "pids.max"]],
            expect![[r#"
            cpu.max = 50000 100000
            memory.max = 4096
            memory.swap.max = 0
            pids.max = 7"#]],
        );
    }

    #[test]
    fn old_groups_take_one_each_beside_a_unified_one_without_controllers() {
        check(
            &[&["cgroup.procs"], &["cpu.cfs_quota_us"], &["memory.limit_in_bytes"]],
            expect![[r#"
            cgroup.procs = max
            cpu.cfs_quota_us = 50000
            memory.limit_in_bytes = 4096"#]],
        );
    }

    #[test]
    fn a_controller_that_is_not_there_is_a_note() {
        check(
            &[&["memory.max"]],
            expect![[r#"
            there is no limit on processor: cgroups cannot be used: the kernel offers no controller for it
            memory.max = 4096"#]],
        );
    }

    #[test]
    fn a_limit_that_nobody_can_set_is_a_note_and_no_error() {
        let limits = Limits { cpu_millis: Some(500), memory_bytes: None, processes: Some(7) };
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        expect!["there is no limit on processor: cgroups cannot be used: permission denied"]
            .assert_eq(&limits.set(&[], Some(&refused)).join("\n"));
        assert!(Limits::default().set(&[], Some(&refused)).is_empty());
    }
}
