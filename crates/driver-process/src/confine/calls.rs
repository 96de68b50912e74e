//! The system calls that no workload needs and that attacks begin with: a seccomp filter which
//! answers them with "not permitted". A call is a row in [`REFUSED`]; the list follows what Docker and
//! systemd refuse to services by default.
//!
//! A program for another architecture than the machine's own, 32-bit ones too, is killed: its calls
//! have other numbers, and no row would fit.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::{Manner, said};

const REFUSED: &[libc::c_long] = &[
    // The file systems that are mounted, and other ways to the files below them.
    libc::SYS_chroot,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    // Namespaces, in which a process has capabilities again.
    libc::SYS_setns,
    libc::SYS_unshare,
    // The kernel itself.
    libc::SYS_acct,
    libc::SYS_bpf,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_perf_event_open,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    // Keys of the kernel, which know no namespaces.
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    // The clock and the name of the machine.
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_settimeofday,
    // Other processes.
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

/// The x32 calls of this processor: the same numbers with this bit, and a few of their own. The
/// kernel counts them as calls of the machine's own architecture.
#[cfg(target_arch = "x86_64")]
const X32: libc::c_long = 0x4000_0000;
/// `ptrace`, `kexec_load`, `process_vm_readv` and `process_vm_writev` there.
#[cfg(target_arch = "x86_64")]
const REFUSED_X32: &[libc::c_long] = &[X32 + 521, X32 + 528, X32 + 539, X32 + 540];

/// Flags of `clone` that make a namespace.
const NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// `TIOCSTI` and `TIOCLINUX`: writing into somebody's terminal as if they had typed it.
const TYPING: &[u64] = &[0x5412, 0x541C];

/// Calls that change another process of the same user, and the argument that names it; 0 is the caller.
/// Refused to those that share the agent's user: they could take its files or its processor from it.
const OF_OTHERS: &[(libc::c_long, u8)] = &[
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_setpriority, 1),
];
/// `PRIO_USER` and `IOPRIO_WHO_USER`: all processes of a user, and 0 is the caller's own.
const ALL_OF_A_USER: &[(libc::c_long, u64)] =
    &[(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// Refuses them to the calling process and to all that it starts.
pub(super) fn refuse(manner: Manner) -> io::Result<()> {
    // Without an answer to `clone3`, whose flags no filter sees, programs use `clone`.
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    apply(twice(unknown), libc::ENOSYS)?;
    apply(rules(manner).map_err(|error| said("make its filter", error))?, libc::EPERM)
}

fn apply(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> io::Result<()> {
    let failed = |error: &dyn std::fmt::Display| {
        said("filter its system calls", io::Error::other(error.to_string()))
    };
    let architecture =
        TargetArch::try_from(std::env::consts::ARCH).map_err(|error| failed(&error))?;
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, architecture);
    let program = filter.and_then(BpfProgram::try_from).map_err(|error| failed(&error))?;
    seccompiler::apply_filter(&program).map_err(|error| failed(&error))
}

fn rules(manner: Manner) -> io::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let refused = REFUSED.iter().chain(REFUSED_HERE).copied();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        refused.map(|number| (number, Vec::new())).collect();
    let namespaces = NAMESPACES.iter().map(|flag| {
        let flag = u64::from(flag.unsigned_abs());
        rule(0, SeccompCmpOp::MaskedEq(flag), flag)
    });
    rules.insert(libc::SYS_clone, namespaces.collect::<io::Result<_>>()?);
    let typing = TYPING.iter().map(|request| rule(1, SeccompCmpOp::Eq, *request));
    rules.insert(libc::SYS_ioctl, typing.collect::<io::Result<_>>()?);
    let of_others = match manner {
        Manner::OwnUser => &[][..],
        Manner::UserNamespace | Manner::Shared => OF_OTHERS,
    };
    for (number, who) in of_others {
        let mut refused = vec![rule(*who, SeccompCmpOp::Ne, 0)?];
        for (_, kind) in ALL_OF_A_USER.iter().filter(|(all, _)| all == number) {
            refused.push(rule(0, SeccompCmpOp::Eq, *kind)?);
        }
        rules.insert(*number, refused);
    }
    #[cfg(target_arch = "x86_64")]
    rules.extend(REFUSED_X32.iter().map(|number| (*number, Vec::new())));
    Ok(twice(rules))
}

/// The same for the x32 calls, where there are any.
#[cfg(target_arch = "x86_64")]
fn twice(mut rules: BTreeMap<i64, Vec<SeccompRule>>) -> BTreeMap<i64, Vec<SeccompRule>> {
    let again: Vec<(i64, Vec<SeccompRule>)> = rules
        .iter()
        .filter(|(number, _)| **number < X32)
        .map(|(number, rules)| (number + X32, rules.clone()))
        .collect();
    rules.extend(again);
    rules
}

#[cfg(not(target_arch = "x86_64"))]
fn twice(rules: BTreeMap<i64, Vec<SeccompRule>>) -> BTreeMap<i64, Vec<SeccompRule>> {
    rules
}

fn rule(argument: u8, compare: SeccompCmpOp, value: u64) -> io::Result<SeccompRule> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, value)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| io::Error::other(error.to_string()))
}
