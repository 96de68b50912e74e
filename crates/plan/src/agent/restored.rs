//! Whether a server has been set back to a backup, by the versions that it tells. Called by
//! `tombolo_agent::orders` for every list; start at [`judge`].

/// A server that restores a backup goes on at versions that are higher by a billion: ours does, and etcd
/// where it is told to. It counts from the backup if its store was lost, so what was written since is
/// missing; nobody writes half a billion times between two lists, or two backups.
pub const RESTORE_LEAP: u64 = 500_000_000;

/// What a list is, beside what was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// It goes on from there.
    Continues,
    /// The server was set back and goes on far beyond: what it does not know, it has forgotten.
    Leapt,
    /// The server was set back and is still behind: what it does not know, it may learn yet.
    Behind,
}

/// `newest` is the newest version that a server has ever told, 0 if none has; `version` that of the list.
pub fn judge(newest: u64, version: Option<u64>) -> Listed {
    match version {
        Some(version) if version < newest => Listed::Behind,
        Some(version) if leaps(newest, version) => Listed::Leapt,
        Some(_) | None => Listed::Continues,
    }
}

/// The newest version after one object was seen. A leap is left to the next list: only that tells what
/// the server has forgotten, and the answer to a write may come before it.
pub fn newest_after(newest: u64, seen: Option<u64>) -> u64 {
    match seen {
        Some(seen) if !leaps(newest, seen) => newest.max(seen),
        Some(_) | None => newest,
    }
}

fn leaps(newest: u64, version: u64) -> bool {
    newest > 0 && version.saturating_sub(newest) >= RESTORE_LEAP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_set_back_is_known_by_its_version() {
        let rows = [
            (0, Some(7), Listed::Continues),
            (0, Some(RESTORE_LEAP), Listed::Continues),
            (7, Some(7), Listed::Continues),
            (7, None, Listed::Continues),
            (7, Some(6), Listed::Behind),
            (7, Some(6 + RESTORE_LEAP), Listed::Continues),
            (7, Some(7 + RESTORE_LEAP), Listed::Leapt),
        ];
        for (newest, version, expected) in rows {
            assert_eq!(judge(newest, version), expected, "{newest} {version:?}");
        }
    }

    #[test]
    fn one_object_from_beyond_a_leap_does_not_hide_it_from_the_list() {
        let rows = [(0, Some(RESTORE_LEAP), RESTORE_LEAP), (7, Some(9), 9), (9, Some(7), 9)];
        for (newest, seen, expected) in rows {
            assert_eq!(newest_after(newest, seen), expected);
        }
        assert_eq!(newest_after(7, Some(7 + RESTORE_LEAP)), 7);
        assert_eq!(newest_after(7, None), 7);
    }
}
