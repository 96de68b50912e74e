//! The users that instances run as, for an agent that is root: one for each App, from numbers that
//! belong to nobody. Asked by `start`; start at [`Users::of_app`].
//!
//! An agent has a block of numbers to itself. Which block is whose on a machine is written in
//! `/run/tombolo/users`, so that two agents never share one; which App has which number is written in
//! the driver's folder, so that an App keeps its number for as long as the node knows it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::folder;

/// Numbers that systemd's table of users leaves unused: above those of containers, below those that
/// programs take for negative.
pub(crate) const RANGE_DEFAULT: Range<u32> = 1_879_048_192..2_147_418_112;
/// As many Apps as one agent can tell apart.
const BLOCK: u32 = 65_536;
/// Where the machine's mapping has no room for the default range, numbers begin here: above those
/// that machines give to people and services.
const SMALL_RANGE_START: u32 = 40_000;
/// Fewer numbers are not worth a block.
const SMALL_RANGE_LENGTH_MIN: u32 = 1_000;
/// Which block is whose on this machine. It is gone after a reboot, when nobody runs as any of them.
const CLAIMS: &str = "/run/tombolo/users";
const FILE: &str = "users.json";

/// What is written down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    first: Option<u32>,
    /// By `namespace/app`.
    apps: BTreeMap<String, u32>,
}

/// The users of one driver.
#[derive(Debug)]
pub(crate) struct Users {
    path: PathBuf,
    block: Range<u32>,
    apps: BTreeMap<String, u32>,
}

impl Users {
    /// Takes a block of numbers for the driver whose folder this is, if possible the block that it had
    /// before.
    pub(crate) fn open(driver: &Path, range: Range<u32>) -> io::Result<Users> {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let range = usable(range, &map).ok_or_else(|| {
            io::Error::other(
                "this machine has no numbers of users for workloads; see /proc/self/uid_map",
            )
        })?;
        let path = driver.join(FILE);
        let record: Record = fs::read(&path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let first = claim(Path::new(CLAIMS), driver, &range, record.first)?;
        let block = first..first.saturating_add(BLOCK).min(range.end);
        // Numbers of another block are another agent's.
        let apps = record.apps.into_iter().filter(|(_, number)| block.contains(number)).collect();
        Ok(Users { path, block, apps })
    }

    /// The number of an App: the number that it has, or one that is free. `known` are the Apps that the
    /// node has something of; the numbers of others may be given away when there are no more.
    pub(crate) fn of_app(&mut self, app: &str, known: &BTreeSet<String>) -> io::Result<u32> {
        if let Some(number) = self.apps.get(app) {
            return Ok(*number);
        }
        let real = real_users();
        let number = match free(app, &self.block, &self.apps, &real) {
            Some(number) => number,
            None => {
                self.apps.retain(|app, _| known.contains(app));
                free(app, &self.block, &self.apps, &real)
                    .ok_or_else(|| io::Error::other("all numbers of users are given away"))?
            }
        };
        self.apps.insert(app.to_owned(), number);
        if let Err(error) = self.write() {
            self.apps.remove(app);
            return Err(error);
        }
        Ok(number)
    }

    /// On disk before anybody runs as it: after a loss of power nobody else may get it.
    fn write(&self) -> io::Result<()> {
        let record = Record { first: Some(self.block.start), apps: self.apps.clone() };
        let draft = self.path.with_extension("new");
        let mut file = folder::create(&draft)?;
        file.write_all(&serde_json::to_vec(&record)?)?;
        file.sync_all()?;
        fs::rename(&draft, &self.path)
    }
}

/// The first number from a place that depends on the App: so a file that an App left behind is
/// unlikely to be the next one's.
fn free(
    app: &str,
    block: &Range<u32>,
    apps: &BTreeMap<String, u32>,
    real: &[Range<u32>],
) -> Option<u32> {
    let taken: BTreeSet<u32> = apps.values().copied().collect();
    let begin = start(app, block);
    (begin..block.end)
        .chain(block.start..begin)
        .find(|number| !taken.contains(number) && !real.iter().any(|real| real.contains(number)))
}

fn start(what: impl Hash, range: &Range<u32>) -> u32 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    let length = u64::from(range.end - range.start).max(1);
    range.start + u32::try_from(hasher.finish() % length).unwrap_or(0)
}

/// Numbers that belong to somebody: users and groups of the machine, and what they may hand on.
fn real_users() -> Vec<Range<u32>> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut real = numbers(&read("/etc/passwd"), 2);
    real.extend(numbers(&read("/etc/group"), 2));
    real.extend(ranges(&read("/etc/subuid")));
    real.extend(ranges(&read("/etc/subgid")));
    real
}

/// The number in a column of `name:x:number:…`.
fn numbers(text: &str, column: usize) -> Vec<Range<u32>> {
    let number = |line: &str| line.split(':').nth(column)?.parse::<u32>().ok();
    text.lines().filter_map(number).map(|number| number..number.saturating_add(1)).collect()
}

/// `name:first:count`.
fn ranges(text: &str) -> Vec<Range<u32>> {
    let range = |line: &str| {
        let mut fields = line.split(':').skip(1);
        let first: u32 = fields.next()?.parse().ok()?;
        Some(first..first.saturating_add(fields.next()?.trim().parse().ok()?))
    };
    text.lines().filter_map(range).collect()
}

/// The range, if the machine lets us use its numbers; in a container that has only few, some of them.
fn usable(range: Range<u32>, map: &str) -> Option<Range<u32>> {
    let extent = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let first: u32 = fields.next()?.parse().ok()?;
        Some(first..first.saturating_add(fields.nth(1)?.parse().ok()?))
    };
    let extents: Vec<Range<u32>> = map.lines().filter_map(extent).collect();
    let holds = |extent: &Range<u32>| extent.start <= range.start && range.end <= extent.end;
    if extents.iter().any(holds) {
        return Some(range);
    }
    let largest = extents.into_iter().max_by_key(|extent| extent.end - extent.start)?;
    // The last one is nobody's name.
    let small = largest.start.max(SMALL_RANGE_START)..largest.end.saturating_sub(2);
    (small.end.saturating_sub(small.start) >= SMALL_RANGE_LENGTH_MIN).then_some(small)
}

/// Takes the first block that no other driver has: the last block again, or from a place that depends on
/// the driver's folder.
fn claim(claims: &Path, driver: &Path, range: &Range<u32>, last: Option<u32>) -> io::Result<u32> {
    folder::make_folder(claims, 0o700)?;
    let lock = File::options().create(true).append(true).open(claims.join("lock"))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    let count = ((range.end - range.start) / BLOCK).max(1);
    let offset = start(driver, &(0..count));
    let blocks = (0..count).map(|number| range.start + (number + offset) % count * BLOCK);
    let last =
        last.filter(|last| range.contains(last) && (last - range.start).is_multiple_of(BLOCK));
    for first in last.into_iter().chain(blocks) {
        let path = claims.join(first.to_string());
        let holder = fs::read_to_string(&path).unwrap_or_default();
        let is_free =
            holder.is_empty() || Path::new(&holder) == driver || !Path::new(&holder).exists();
        if is_free {
            fs::write(&path, driver.display().to_string())?;
            return Ok(first);
        }
    }
    Err(io::Error::other("all blocks of users belong to other agents of this machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_keeps_its_number_and_no_two_have_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let block = 2_000_000_000..2_000_000_003;
        let path = folder.path().join(FILE);
        let mut users = Users { path: path.clone(), block: block.clone(), apps: BTreeMap::new() };
        let none = BTreeSet::new();
        let all: BTreeSet<u32> =
            ["a/web", "b/web", "a/db"].map(|app| users.of_app(app, &none).unwrap()).into();
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|number| block.contains(number)));
        let again = users.of_app("b/web", &none).unwrap();
        let record: Record = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(record.apps["b/web"], again);
        // There are no more: that of an App that is gone is given away.
        let known = BTreeSet::from(["a/web".to_owned(), "b/web".to_owned()]);
        let gone = users.apps["a/db"];
        assert_eq!(users.of_app("c/new", &known).unwrap(), gone);
        let known = users.apps.keys().cloned().collect();
        assert!(users.of_app("d/new", &known).is_err());
    }

    #[test]
    fn numbers_of_real_users_are_never_given() {
        let real = [numbers("a:x:100:100::/:/bin/sh\n", 2), ranges("a:101:3\n")].concat();
        assert_eq!(free("x", &(100..105), &BTreeMap::new(), &real), Some(104));
        assert_eq!(free("x", &(100..104), &BTreeMap::new(), &real), None);
    }

    #[test]
    fn two_agents_have_two_blocks_and_a_claim_of_nobody_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let claims = folder.path().join("claims");
        let [one, two, three] = ["one", "two", "three"].map(|name| folder.path().join(name));
        for driver in [&one, &two, &three] {
            fs::create_dir(driver).unwrap();
        }
        let range = 0..2 * BLOCK;
        let first = claim(&claims, &one, &range, None).unwrap();
        let second = claim(&claims, &two, &range, Some(first)).unwrap();
        assert_ne!(first, second);
        assert_eq!(claim(&claims, &one, &range, None).unwrap(), first, "the same again");
        assert!(claim(&claims, &three, &range, None).is_err());
        fs::remove_dir(&one).unwrap();
        assert_eq!(claim(&claims, &three, &range, Some(17)).unwrap(), first);
    }

    #[test]
    fn a_container_with_few_numbers_uses_those() {
        let check = |map: &str, expected: Option<Range<u32>>| {
            assert_eq!(usable(RANGE_DEFAULT, map), expected, "{map}");
        };
        check("         0          0 4294967295\n", Some(RANGE_DEFAULT));
        check("0 100000 65536\n", Some(40_000..65_534));
        check("0 1000 1\n", None);
        check("", None);
    }
}
