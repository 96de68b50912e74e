//! Which cgroup hierarchies the machine has and where we are in them: v1 with a hierarchy for each
//! controller, v2 with one for all of them, or both at once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The v1 controllers that are of use.
const CONTROLLERS: &[&str] = &["cpu", "memory", "cpuacct", "pids"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub(crate) mount: PathBuf,
    pub(crate) version: Version,
    /// Our own group, from the mount on.
    below: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

impl Hierarchy {
    /// The group that this process is in.
    pub(crate) fn own(&self) -> PathBuf {
        // Joining nothing would add a slash.
        match self.below.as_os_str().is_empty() {
            true => self.mount.clone(),
            false => self.mount.join(&self.below),
        }
    }
}

pub(crate) fn find() -> Vec<Hierarchy> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    read(&mounts, &groups)
}

fn read(mounts: &str, groups: &str) -> Vec<Hierarchy> {
    let own: BTreeMap<&str, &str> = groups.lines().filter_map(read_group).collect();
    mounts.lines().filter_map(|line| read_mount(line, &own)).collect()
}

/// `4:memory:/a` is the controllers and our group; for v2 the controllers are the empty text.
fn read_group(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(':')?;
    rest.split_once(':')
}

/// `35 31 0:32 /root /mount opts … - cgroup source rw,memory`.
fn read_mount(line: &str, own: &BTreeMap<&str, &str>) -> Option<Hierarchy> {
    let (head, tail) = line.split_once(" - ")?;
    let head: Vec<&str> = head.split(' ').collect();
    let tail: Vec<&str> = tail.split(' ').collect();
    let (root, mount) = (head.get(3)?, head.get(4)?);
    let (version, group) = match *tail.first()? {
        "cgroup2" => (Version::Two, *own.get("")?),
        "cgroup" => (Version::One, own_of(tail.get(2)?, own)?),
        _ => return None,
    };
    // In a container the mount may begin at a group; from outside of it, nothing is ours.
    let below = Path::new(group).strip_prefix(root).ok()?;
    if below.components().any(|part| part.as_os_str() == "..") {
        return None;
    }
    Some(Hierarchy { mount: PathBuf::from(mount), version, below: below.to_owned() })
}

/// Our group in the hierarchy with these mount options, if one of its controllers is of use.
fn own_of<'a>(options: &str, own: &BTreeMap<&str, &'a str>) -> Option<&'a str> {
    let useful = options.split(',').any(|option| CONTROLLERS.contains(&option));
    let mounted = |names: &str| names.split(',').all(|name| options.split(',').any(|o| o == name));
    let group = own.iter().find(|(names, _)| !names.is_empty() && mounted(names));
    group.filter(|_| useful).map(|(_, group)| *group)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(mounts: &str, groups: &str, expected: Expect) {
        let lines: Vec<String> = read(mounts, groups)
            .iter()
            .map(|hierarchy| format!("{:?} {}\n", hierarchy.version, hierarchy.own().display()))
            .collect();
        expected.assert_eq(&lines.concat());
    }

    #[test]
    fn a_unified_machine_has_one() {
        check(
            "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
            "0::/system.slice/tombolo.service\n",
            expect![[r#"
                Two /sys/fs/cgroup/system.slice/tombolo.service
            "#]],
        );
    }

    #[test]
    fn an_old_machine_has_one_for_each_controller() {
        check(
            "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
             32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             36 31 0:33 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            "4:memory:/a/b\n3:cpu,cpuacct:/\n2:devices:/\n1:name=systemd:/\n0::/\n",
            expect![[r#"
                One /sys/fs/cgroup/cpu,cpuacct
                One /sys/fs/cgroup/memory/a/b
                Two /sys/fs/cgroup/unified
            "#]],
        );
    }

    #[test]
    fn a_mount_that_begins_at_a_group_leads_to_what_is_below_it() {
        check(
            "35 31 0:32 /docker/c1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             32 31 0:29 /docker/c2 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
            "4:memory:/docker/c1/x\n3:cpu:/docker/c1\n",
            expect![[r#"
                One /sys/fs/cgroup/memory/x
            "#]],
        );
    }
}
