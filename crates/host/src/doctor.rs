//! What the agent knows of its machine and thinks of its set-up, for people and programs. Called by
//! `tombolo agent doctor`: [`Doctor`] is shown as text, or written as JSON.

use std::fmt;

use serde::Serialize;

use crate::load::Load;
use crate::machine::Machine;
use crate::security::{Report, Row, Verdict};

/// A whole examination.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Doctor {
    pub machine: Machine,
    pub load: Load,
    pub security: Report,
}

impl Doctor {
    /// How many checks came to this.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.security.rows.iter().filter(|row| row.outcome.verdict == verdict).count()
    }

    /// What to do, the gravest first.
    pub fn to_mend(&self) -> Vec<&Row> {
        let failed = |row: &&Row| row.outcome.verdict == Verdict::Fail;
        let mut rows: Vec<&Row> = self.security.rows.iter().filter(failed).collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.weight), row.id));
        rows
    }
}

impl fmt::Display for Doctor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        machine(f, &self.machine)?;
        let mut area = "";
        for row in &self.security.rows {
            if row.area != area {
                area = row.area;
                writeln!(f, "\n{area}")?;
            }
            let (word, found) = (row.outcome.verdict.word(), &row.outcome.found);
            writeln!(f, "  {word:<8} {:<13} {} ({found})", row.id, row.title)?;
        }
        let to_mend = self.to_mend();
        if !to_mend.is_empty() {
            writeln!(f, "\nTo fix, the most serious first")?;
        }
        for row in to_mend {
            writeln!(f, "  {:<13} {}\n  {:<13} {}", row.id, row.why, "", row.mend)?;
        }
        writeln!(
            f,
            "\nSecurity score {} of 100: {} passed, {} failed, {} unknown, {} do not apply",
            self.security.score,
            self.count(Verdict::Pass),
            self.count(Verdict::Fail),
            self.count(Verdict::Unknown),
            self.count(Verdict::NotApplicable),
        )?;
        if self.count(Verdict::Unknown) > 0 {
            writeln!(f, "What is unknown counts as not passed; as root the agent sees more.")?;
        }
        Ok(())
    }
}

fn machine(f: &mut fmt::Formatter<'_>, machine: &Machine) -> fmt::Result {
    let what = &machine.characteristics;
    let mut line = |name: &str, parts: &[Option<String>]| {
        let parts: Vec<&str> = parts.iter().flatten().map(String::as_str).collect();
        match parts.is_empty() {
            true => Ok(()),
            false => writeln!(f, "{name:<12} {}", parts.join(", ")),
        }
    };
    let cpu = what.cpu.clone().unwrap_or_default();
    let os = what.os.clone().unwrap_or_default();
    line("machine", &[what.vendor.clone(), what.model.clone(), what.virtualization.clone()])?;
    line("name", &[machine.hostname.clone(), what.uuid.clone()])?;
    line("system", &[os.name, os.version, os.kernel.map(|kernel| format!("kernel {kernel}"))])?;
    line(
        "processor",
        &[
            cpu.model,
            cpu.architecture.map(|arch| arch.to_string()),
            cpu.cores.map(|cores| format!("{cores} cores")),
            cpu.threads.map(|threads| format!("{threads} threads")),
            cpu.frequency_mhz_max.map(|megahertz| format!("{megahertz} MHz")),
        ],
    )?;
    line("memory", &[what.memory.map(|memory| shown_bytes(memory.get()))])?;
    for disk in &what.disks {
        let kind = disk.kind.map(|kind| kind.to_string());
        line(
            "disk",
            &[Some(disk.name.clone()), kind, disk.size.map(|size| shown_bytes(size.get()))],
        )?;
    }
    for gpu in &what.gpus {
        line("gpu", &[gpu.model.clone(), gpu.memory.map(|memory| shown_bytes(memory.get()))])?;
    }
    for interface in &what.interfaces {
        let state = if interface.up { "up" } else { "down" };
        let mut parts =
            vec![Some(interface.name.clone()), interface.kind.clone(), Some(state.into())];
        parts.extend(interface.addresses.iter().cloned().map(Some));
        line("network", &parts)?;
    }
    for device in &what.devices {
        let status = device.status.map(|status| status.to_string());
        line("device", &[Some(device.name.clone()), status, device.path.clone()])?;
    }
    for engine in &machine.engines {
        line("engine", &[Some(engine.name.to_owned()), Some(engine.path.to_owned())])?;
    }
    let watts = |name: &str, watts: Option<f64>| watts.map(|watts| format!("{name} {watts} W"));
    let energy = &machine.energy;
    line(
        "energy",
        &[
            watts("idle", energy.idle_watts),
            watts("busy", energy.busy_watts),
            energy.source.clone(),
        ],
    )
}

/// To a tenth of the largest unit that fits, for people.
fn shown_bytes(bytes: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let Some((size, unit)) = units.iter().find(|(size, _)| bytes >= *size) else {
        return format!("{bytes} B");
    };
    let tenths = u128::from(bytes) * 10 / u128::from(*size);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}
