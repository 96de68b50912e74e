//! Batteries, and what the machine takes in electricity. Called by [`crate::characterise`] and
//! [`crate::load`]; [`CLASSES`] is the table of the guesses.

use tombolo_model::characteristics::{Battery, Processor};
use tombolo_model::node::Energy;

use crate::root::Root;

const SUPPLIES: &str = "/sys/class/power_supply";
const ZONES: &str = "/sys/class/powercap";
const SUPPLIES_MAX: usize = 32;
const PACKAGES_MAX: usize = 64;
/// The battery's level is published in these steps, so that a status is not written every minute.
const LEVEL_STEP: u8 = 5;
/// What the rest of a machine (memory, disks, fans, losses) takes on top of its processors.
const BESIDES_PROCESSORS: f64 = 1.3;

/// What machines of a kind take, roughly: watts that do not depend on the cores, and watts for each
/// core. Such figures differ by a factor of two between machines of one kind; they are here so that
/// a placer can tell a Raspberry Pi from a server, and the source says that they are a guess.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    pub name: &'static str,
    pub idle_watts: f64,
    pub idle_watts_per_core: f64,
    pub busy_watts: f64,
    pub busy_watts_per_core: f64,
    /// Whether a machine is of this kind.
    pub fits: fn(&Traits<'_>) -> bool,
}

/// What decides the class.
#[derive(Clone, Copy, Debug)]
pub struct Traits<'a> {
    /// The processor's model, in lower case.
    pub model: &'a str,
    pub arm: bool,
    pub battery: bool,
    pub virtual_machine: bool,
}

/// From the top; the first that fits counts.
pub const CLASSES: &[Class] = &[
    Class {
        name: "virtual machine",
        idle_watts: 0.0,
        idle_watts_per_core: 1.5,
        busy_watts: 0.0,
        busy_watts_per_core: 6.0,
        fits: |traits| traits.virtual_machine,
    },
    Class {
        name: "arm server",
        idle_watts: 40.0,
        idle_watts_per_core: 0.4,
        busy_watts: 60.0,
        busy_watts_per_core: 2.5,
        fits: |traits| {
            traits.arm && (traits.model.contains("neoverse") || traits.model.contains("ampere"))
        },
    },
    Class {
        name: "arm board",
        idle_watts: 2.0,
        idle_watts_per_core: 0.1,
        busy_watts: 2.5,
        busy_watts_per_core: 1.0,
        fits: |traits| traits.arm,
    },
    Class {
        name: "server",
        idle_watts: 60.0,
        idle_watts_per_core: 1.0,
        busy_watts: 90.0,
        busy_watts_per_core: 7.0,
        fits: |traits| traits.model.contains("xeon") || traits.model.contains("epyc"),
    },
    Class {
        name: "small pc",
        idle_watts: 5.0,
        idle_watts_per_core: 0.3,
        busy_watts: 7.0,
        busy_watts_per_core: 2.5,
        fits: |traits| {
            let small = ["atom", "celeron", "pentium silver", "n100", "n200", "n305", "j4125"];
            small.iter().any(|word| traits.model.contains(word))
        },
    },
    Class {
        name: "laptop",
        idle_watts: 5.0,
        idle_watts_per_core: 0.3,
        busy_watts: 10.0,
        busy_watts_per_core: 4.0,
        fits: |traits| traits.battery,
    },
    Class {
        name: "desktop",
        idle_watts: 25.0,
        idle_watts_per_core: 0.8,
        busy_watts: 40.0,
        busy_watts_per_core: 10.0,
        fits: |_| true,
    },
];

/// One battery, as `/sys` has it: micro-units.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cell {
    level: Option<u8>,
    charging: bool,
    full_wh: Option<f64>,
}

/// All batteries together, with their level rounded down to a step.
pub fn battery(root: &Root) -> Option<Battery> {
    let battery = battery_exact(root)?;
    Some(Battery { level: battery.level.map(|level| level / LEVEL_STEP * LEVEL_STEP), ..battery })
}

/// All batteries together.
pub fn battery_exact(root: &Root) -> Option<Battery> {
    let names = root.list(SUPPLIES);
    together(names.iter().take(SUPPLIES_MAX).filter_map(|name| cell(root, name)))
}

fn cell(root: &Root, name: &str) -> Option<Cell> {
    let field = |field: &str| root.text(&format!("{SUPPLIES}/{name}/{field}"));
    let micro = |name: &str| -> Option<f64> { field(name)?.parse().ok() };
    // A battery of scope Device is that of a mouse.
    if field("type")? != "Battery" || field("scope").as_deref() == Some("Device") {
        return None;
    }
    let by_energy = micro("energy_full").or_else(|| micro("energy_full_design"));
    let by_charge = || {
        let charge = micro("charge_full").or_else(|| micro("charge_full_design"))?;
        Some(charge * micro("voltage_min_design").or_else(|| micro("voltage_now"))? / 1e6)
    };
    let full_wh = by_energy.or_else(by_charge).map(|micro_wh| (micro_wh / 1e5).round() / 10.0);
    Some(Cell {
        level: field("capacity").and_then(|level| level.parse().ok()).filter(|level| *level <= 100),
        charging: field("status").as_deref() == Some("Charging"),
        full_wh: full_wh.filter(|wh| (0.0..=1e7).contains(wh)),
    })
}

/// The level of several is weighed by what each holds, where that is known of all.
fn together(cells: impl Iterator<Item = Cell>) -> Option<Battery> {
    let cells: Vec<Cell> = cells.collect();
    let first = cells.first()?;
    let wh: Option<f64> = cells.iter().map(|cell| cell.full_wh).sum();
    let held: Option<f64> =
        cells.iter().map(|cell| Some(cell.full_wh? * f64::from(cell.level?))).sum();
    let weighed = match (held, wh) {
        (Some(held), Some(wh)) if wh > 0.0 => percent(held / wh),
        _ => first.level,
    };
    Some(Battery {
        level: weighed,
        charging: cells.iter().any(|cell| cell.charging),
        capacity_wh: wh,
    })
}

fn percent(value: f64) -> Option<u8> {
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    #[expect(clippy::cast_sign_loss, reason = "the range is checked")]
    (0.0..=100.0).contains(&value).then_some(value as u8)
}

/// From the limits that the processors themselves know, else from [`CLASSES`]. The source says
/// which.
pub fn energy(root: &Root, processor: &Processor, traits: &Traits<'_>) -> Energy {
    let class = CLASSES.iter().find(|class| (class.fits)(traits));
    let cores = f64::from(processor.cores.unwrap_or(1));
    let idle = class.map(|class| class.idle_watts + class.idle_watts_per_core * cores);
    let busy = class.map(|class| class.busy_watts + class.busy_watts_per_core * cores);
    let name = class.map_or("unknown", |class| class.name);
    let (busy, source) = match package_limit_watts(root).filter(|_| !traits.virtual_machine) {
        Some(limit) => {
            (Some(limit * BESIDES_PROCESSORS), format!("rapl limit, idle by class: {name}"))
        }
        None => (busy, format!("estimated by class: {name}")),
    };
    let rounded = |watts: Option<f64>| watts.map(|watts| (watts * 10.0).round() / 10.0);
    // A limit below the guess for idling says that the guess is too high.
    let idle = idle.map(|idle| busy.map_or(idle, |busy| idle.min(busy * 0.6)));
    Energy {
        idle_watts: rounded(idle),
        busy_watts: rounded(busy),
        carbon_intensity: None,
        source: Some(source),
    }
}

/// What the processors may take for long, all together.
fn package_limit_watts(root: &Root) -> Option<f64> {
    let limits = packages(root).into_iter().map(|zone| {
        let field = |name: &str| root.number::<f64>(&format!("{ZONES}/{zone}/{name}"));
        field("constraint_0_max_power_uw")
            .filter(|limit| *limit > 0.0)
            .or_else(|| field("constraint_0_power_limit_uw"))
    });
    let watts = limits.sum::<Option<f64>>()? / 1e6;
    (1.0..=1e5).contains(&watts).then_some(watts)
}

/// Microjoules that the processors have taken since some time ago, each with the count at which
/// it begins again. None where they may not be read: kernels since 5.10 show them to root only.
pub(crate) fn energy_counters(root: &Root) -> Vec<(u64, u64)> {
    let packages = packages_of_energy(root);
    packages.iter().map(|package| (package.microjoules, package.microjoules_max)).collect()
}

/// A package of processors and what it has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// The number that the kernel has for it.
    pub index: String,
    pub path: String,
    pub microjoules: u64,
    /// Where the counter begins again.
    pub microjoules_max: u64,
}

/// Those that may be read.
pub fn packages_of_energy(root: &Root) -> Vec<Package> {
    let package = |zone: &String| {
        let path = format!("{ZONES}/{zone}");
        Some(Package {
            index: zone.rsplit(':').next().unwrap_or_default().to_owned(),
            microjoules: root.number(&format!("{path}/energy_uj"))?,
            microjoules_max: root.number(&format!("{path}/max_energy_range_uj"))?,
            path,
        })
    };
    packages(root).iter().filter_map(package).collect()
}

/// Zones of whole packages, such as `intel-rapl:0`; `intel-rapl:0:0` is a part of a package.
fn packages(root: &Root) -> Vec<String> {
    let mut names = root.list(ZONES);
    names.retain(|name| name.starts_with("intel-rapl:") && name.matches(':').count() == 1);
    names.retain(|name| {
        root.text(&format!("{ZONES}/{name}/name")).is_some_and(|name| name.starts_with("package"))
    });
    names.truncate(PACKAGES_MAX);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_batteries_are_weighed_by_what_they_hold() {
        let cell = |level, wh| Cell { level: Some(level), charging: false, full_wh: wh };
        let level = |cells: &[Cell]| together(cells.iter().copied()).and_then(|all| all.level);
        assert_eq!(level(&[cell(100, Some(10.0)), cell(0, Some(30.0))]), Some(25));
        assert_eq!(level(&[cell(80, None), cell(0, Some(30.0))]), Some(80));
        assert_eq!(level(&[cell(80, Some(0.0))]), Some(80));
        assert_eq!(level(&[]), None);
    }

    #[test]
    fn every_machine_has_a_class_and_takes_more_when_busy() {
        for class in CLASSES {
            assert!(
                class.busy_watts + class.busy_watts_per_core > class.idle_watts,
                "{}",
                class.name
            );
            assert!(class.busy_watts_per_core > class.idle_watts_per_core, "{}", class.name);
            assert!(class.name.len() < 40);
        }
        let class = |model: &str, arm, battery, virtual_machine| {
            let traits = Traits { model, arm, battery, virtual_machine };
            CLASSES.iter().find(|class| (class.fits)(&traits)).map(|class| class.name)
        };
        assert_eq!(class("cortex-a72", true, false, false), Some("arm board"));
        assert_eq!(class("neoverse-n1", true, false, false), Some("arm server"));
        assert_eq!(class("intel(r) xeon(r)", false, false, false), Some("server"));
        assert_eq!(class("amd epyc", false, false, true), Some("virtual machine"));
        assert_eq!(class("intel(r) n100", false, false, false), Some("small pc"));
        assert_eq!(class("core i7", false, true, false), Some("laptop"));
        assert_eq!(class("", false, false, false), Some("desktop"));
    }
}
