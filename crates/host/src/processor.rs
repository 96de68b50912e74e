//! The processor: its architecture, model, cores and speed. Called by [`crate::characterise`];
//! start reading at [`read`].

use std::collections::BTreeSet;

use tombolo_model::Arch;
use tombolo_model::characteristics::Processor;

use crate::clean;
use crate::root::Root;

/// Programs that every machine has; the first that is there tells what the machine can run. The
/// kernel is no witness: a 64-bit one may carry a 32-bit system, which takes 32-bit images.
const PROGRAMS: &[&str] = &["/bin/sh", "/usr/bin/env", "/sbin/init", "/bin/busybox"];
/// More than any machine has.
const THREADS_MAX: u32 = 65536;

/// What `/proc/cpuinfo` says, whatever the architecture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuInfo {
    pub model: Option<String>,
    pub threads: u32,
    /// Where the file tells cores from threads.
    pub cores: Option<u32>,
    pub frequency_mhz: Option<u32>,
    /// Whether the processor says that it is inside a virtual machine.
    pub hypervisor: bool,
    pub arch: Option<Arch>,
    /// The board, which only ARM kernels write here.
    pub board: Option<String>,
}

pub fn read(root: &Root) -> (Processor, CpuInfo) {
    let info = parse_cpuinfo(&root.read("/proc/cpuinfo").present().unwrap_or_default());
    let arch = program_arch(root)
        .or_else(|| root.text("/proc/sys/kernel/arch")?.parse().ok())
        .or(info.arch)
        .or_else(|| root.is_real().then(|| std::env::consts::ARCH.parse().ok()).flatten());
    let threads = (info.threads > 0).then_some(info.threads.min(THREADS_MAX));
    let cores = info.cores.or_else(|| cores_of_topology(root)).or(threads);
    let processor = Processor {
        architecture: arch,
        model: info.model.clone(),
        cores,
        threads,
        frequency_mhz_max: frequency(root, &info),
    };
    (processor, info)
}

/// Reads `/proc/cpuinfo` of any architecture.
pub fn parse_cpuinfo(text: &str) -> CpuInfo {
    let mut info = CpuInfo::default();
    let mut cores = BTreeSet::new();
    let mut arm_parts = Vec::new();
    let (mut package, mut implementer) = (String::new(), String::new());
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let (key, value) = (key.trim(), value.trim());
        match key {
            "processor" => {
                info.threads += 1;
                // Old ARM kernels put the model here: only a number begins a processor.
                if value.parse::<u32>().is_err() {
                    info.threads -= 1;
                    info.model = info.model.or_else(|| clean::name(value));
                }
            }
            "model name" | "cpu model" | "uarch" => {
                info.model = info.model.or_else(|| clean::name(value));
            }
            "cpu" => {
                info.model = info.model.or_else(|| clean::name(value));
                info.arch = info.arch.or(value.starts_with("POWER").then_some(Arch::Ppc64le));
            }
            "vendor_id" if value == "IBM/S390" => info.arch = Some(Arch::S390x),
            "physical id" => package = value.to_owned(),
            "core id" => drop(cores.insert((package.clone(), value.to_owned()))),
            "cpu MHz" => info.frequency_mhz = info.frequency_mhz.max(megahertz(value)),
            "flags" => {
                let has = |flag| value.split(' ').any(|found| found == flag);
                info.hypervisor |= has("hypervisor");
                info.arch = Some(if has("lm") { Arch::Amd64 } else { Arch::X86 });
            }
            "isa" if value.starts_with("rv64") => info.arch = Some(Arch::Riscv64),
            "CPU implementer" => implementer = value.to_owned(),
            "CPU architecture" => {
                info.arch = Some(if value == "8" { Arch::Arm64 } else { Arch::Arm });
            }
            "CPU part" => {
                let part = arm_part(&implementer, value);
                if !arm_parts.contains(&part) && arm_parts.len() < 8 {
                    arm_parts.push(part);
                }
            }
            "Model" => info.board = clean::name(value),
            _ => (),
        }
    }
    info.cores = u32::try_from(cores.len()).ok().filter(|cores| *cores > 0);
    if !arm_parts.is_empty() {
        info.model = clean::line(&arm_parts.join(" + "), 256);
    }
    info
}

/// The architecture of a program, from the first bytes of its file.
pub fn parse_elf(head: &[u8]) -> Option<Arch> {
    let machine: [u8; 2] = head.get(18..20)?.try_into().ok()?;
    let (class, order) = (*head.get(4)?, *head.get(5)?);
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let little = order == 1;
    let machine = if little { u16::from_le_bytes(machine) } else { u16::from_be_bytes(machine) };
    match (machine, class, little) {
        (3, _, true) => Some(Arch::X86),
        (21, 2, true) => Some(Arch::Ppc64le),
        (22, 2, false) => Some(Arch::S390x),
        (40, _, true) => Some(Arch::Arm),
        (62, _, true) => Some(Arch::Amd64),
        (183, _, true) => Some(Arch::Arm64),
        (243, 2, true) => Some(Arch::Riscv64),
        _ => None,
    }
}

fn program_arch(root: &Root) -> Option<Arch> {
    PROGRAMS.iter().find_map(|path| parse_elf(&root.bytes_up_to(path, 64).present()?))
}

/// Threads of one core share a list of siblings, so the distinct lists are the cores.
fn cores_of_topology(root: &Root) -> Option<u32> {
    let folder = "/sys/devices/system/cpu";
    let siblings: BTreeSet<String> = numbered(root, folder, "cpu")
        .filter_map(|cpu| {
            let topology = format!("{folder}/{cpu}/topology");
            root.text(&format!("{topology}/core_cpus_list"))
                .or_else(|| root.text(&format!("{topology}/thread_siblings_list")))
        })
        .collect();
    u32::try_from(siblings.len()).ok().filter(|cores| *cores > 0)
}

/// The highest of all cores, since small and large ones may be mixed. Without a driver that knows
/// it: what the model's name says, then the speed of now, which is the only one that such a
/// machine has.
fn frequency(root: &Root, info: &CpuInfo) -> Option<u32> {
    let folder = "/sys/devices/system/cpu";
    let kilohertz = numbered(root, folder, "cpu")
        .filter_map(|cpu| root.number(&format!("{folder}/{cpu}/cpufreq/cpuinfo_max_freq")))
        .max();
    kilohertz
        .map(|kilohertz: u32| kilohertz / 1000)
        .filter(|megahertz| *megahertz > 0)
        .or_else(|| frequency_in_name(info.model.as_deref()?))
        .or(info.frequency_mhz)
}

/// `Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz`.
fn frequency_in_name(model: &str) -> Option<u32> {
    let gigahertz = model.rsplit_once('@')?.1.trim().strip_suffix("GHz")?;
    megahertz_of(gigahertz.trim().parse::<f64>().ok()? * 1000.0)
}

/// To ten, so that a reading that trembles does not look like another machine.
fn megahertz(text: &str) -> Option<u32> {
    megahertz_of((text.parse::<f64>().ok()? / 10.0).round() * 10.0)
}

fn megahertz_of(value: f64) -> Option<u32> {
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    #[expect(clippy::cast_sign_loss, reason = "the range is checked")]
    (1.0..=100_000.0).contains(&value).then_some(value.round() as u32)
}

/// Names such as `cpu0`, without `cpufreq` and `cpuidle`.
pub(crate) fn numbered<'a>(
    root: &Root,
    folder: &str,
    word: &'a str,
) -> impl Iterator<Item = String> + use<'a> {
    root.list(folder).into_iter().filter(move |name| {
        name.strip_prefix(word).is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    })
}

/// The name of an ARM core by the numbers of its designer and its part.
fn arm_part(implementer: &str, part: &str) -> String {
    let name = match (implementer, part) {
        ("0x41", "0xb76") => "ARM1176",
        ("0x41", "0xc07") => "Cortex-A7",
        ("0x41", "0xc08") => "Cortex-A8",
        ("0x41", "0xc09") => "Cortex-A9",
        ("0x41", "0xc0f") => "Cortex-A15",
        ("0x41", "0xd03") => "Cortex-A53",
        ("0x41", "0xd04") => "Cortex-A35",
        ("0x41", "0xd05") => "Cortex-A55",
        ("0x41", "0xd07") => "Cortex-A57",
        ("0x41", "0xd08") => "Cortex-A72",
        ("0x41", "0xd09") => "Cortex-A73",
        ("0x41", "0xd0a") => "Cortex-A75",
        ("0x41", "0xd0b") => "Cortex-A76",
        ("0x41", "0xd0c") => "Neoverse-N1",
        ("0x41", "0xd0d") => "Cortex-A77",
        ("0x41", "0xd40") => "Neoverse-V1",
        ("0x41", "0xd41") => "Cortex-A78",
        ("0x41", "0xd42") => "Cortex-A78AE",
        ("0x41", "0xd49") => "Neoverse-N2",
        ("0x41", "0xd4f") => "Neoverse-V2",
        ("0x4e", "0x003") => "Denver 2",
        ("0x4e", "0x004") => "Carmel",
        ("0xc0", "0xac3") => "Ampere-1",
        _ => return format!("ARM {implementer}/{part}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: (Option<&str>, u32, Option<u32>, Option<Arch>)) {
        let info = parse_cpuinfo(text);
        assert_eq!((info.model.as_deref(), info.threads, info.cores, info.arch), expected);
    }

    #[test]
    fn threads_of_one_core_are_counted_once() {
        let thread = |number: u32, package: u32, core: u32| {
            format!(
                "processor\t: {number}\nmodel name\t: Xeon\nphysical id\t: {package}\n\
                 core id\t: {core}\nflags\t: fpu lm sse\n\n"
            )
        };
        let text: String =
            [thread(0, 0, 0), thread(1, 0, 0), thread(2, 1, 0), thread(3, 1, 0)].concat();
        check(&text, (Some("Xeon"), 4, Some(2), Some(Arch::Amd64)));
    }

    #[test]
    fn every_architecture_is_understood() {
        check("processor: 0\nflags: fpu vme\n", (None, 1, None, Some(Arch::X86)));
        check(
            "processor: 0\nCPU implementer: 0x41\nCPU architecture: 8\nCPU part: 0xd05\n\
             processor: 1\nCPU implementer: 0x41\nCPU architecture: 8\nCPU part: 0xd0b\n",
            (Some("Cortex-A55 + Cortex-A76"), 2, None, Some(Arch::Arm64)),
        );
        check(
            "Processor: ARMv7 rev 3\nprocessor: 0\nCPU implementer: 0x99\nCPU architecture: 7\n\
             CPU part: 0x1\n",
            (Some("ARM 0x99/0x1"), 1, None, Some(Arch::Arm)),
        );
        check(
            "processor: 0\nhart: 1\nisa: rv64imafdc\nuarch: sifive,u74-mc\n",
            (Some("sifive,u74-mc"), 1, None, Some(Arch::Riscv64)),
        );
        check(
            "processor: 0\ncpu: POWER9, altivec supported\n",
            (Some("POWER9, altivec supported"), 1, None, Some(Arch::Ppc64le)),
        );
    }

    #[test]
    fn nonsense_is_not_a_processor() {
        check("", (None, 0, None, None));
        check("\0\u{fffd}:::\n: \nprocessor\n", (None, 0, None, None));
    }

    #[test]
    fn a_program_tells_its_architecture() {
        let elf = |class: u8, order: u8, machine: [u8; 2]| {
            let mut head = vec![0x7f, b'E', b'L', b'F', class, order];
            head.resize(18, 0);
            head.extend(machine);
            parse_elf(&head)
        };
        assert_eq!(elf(2, 1, [62, 0]), Some(Arch::Amd64));
        assert_eq!(elf(2, 1, [183, 0]), Some(Arch::Arm64));
        assert_eq!(elf(1, 1, [40, 0]), Some(Arch::Arm));
        assert_eq!(elf(2, 2, [0, 22]), Some(Arch::S390x));
        assert_eq!(elf(2, 2, [0, 21]), None);
        assert_eq!(parse_elf(b"#!/bin/sh\nexit 0 # a script"), None);
        assert_eq!(parse_elf(b"\x7fELF"), None);
    }

    #[test]
    fn the_name_tells_the_frequency_where_nothing_else_does() {
        assert_eq!(frequency_in_name("Intel(R) Xeon(R) CPU E5 v4 @ 2.60GHz"), Some(2600));
        assert_eq!(frequency_in_name("AMD EPYC"), None);
        assert_eq!(frequency_in_name("x @ -1GHz"), None);
        assert_eq!(frequency_in_name("x @ 1e300GHz"), None);
    }
}
