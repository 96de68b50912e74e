//! What each of the machines is said to be.

use std::collections::BTreeMap;
use std::fs;

use expect_test::{ExpectFile, expect_file};
use tombolo_host::security::{self, Facts};
use tombolo_host::uuid::Source;
use tombolo_host::{Ask, Machine, Root, Sampler, characterise};
use tombolo_model::characteristics::DeviceStatus;
use tombolo_model::needs::Resources;
use tombolo_model::node::NodeStatus;
use tombolo_model::site::Location;
use tombolo_model::{Cpu, Engine};

use super::fixture::{self, Fixture, Thing};

fn look(fixture: &Fixture) -> Machine {
    let written = fixture.write();
    let machine = characterise(&written.root, &Ask::default());
    let again = characterise(&written.root, &Ask::default());
    assert_eq!(machine, again, "the same machine must give the same value");
    machine
}

#[track_caller]
fn check(fixture: &Fixture, expected: &ExpectFile) {
    let mut machine = look(fixture);
    assert!(machine.capacity.storage.take().is_some(), "the disk of the fixture's folder");
    expected.assert_eq(&serde_json::to_string_pretty(&machine).unwrap());
}

#[test]
fn a_server_with_a_graphics_card() {
    check(&fixture::server(), &expect_file!["machines/server.json"]);
}

#[test]
fn a_raspberry_pi_with_camera_and_pins() {
    check(&fixture::raspberry_pi(), &expect_file!["machines/raspberry-pi.json"]);
}

#[test]
fn a_laptop_on_its_cable() {
    check(&fixture::laptop(), &expect_file!["machines/laptop.json"]);
}

#[test]
fn a_virtual_machine() {
    check(&fixture::virtual_machine(), &expect_file!["machines/virtual-machine.json"]);
}

#[test]
fn a_container_shares_out_only_what_it_may_use() {
    check(&fixture::container(), &expect_file!["machines/container.json"]);
}

#[test]
fn a_machine_without_any_files_is_still_a_machine() {
    check(&Fixture::default(), &expect_file!["machines/empty.json"]);
}

#[test]
fn an_unchanged_machine_does_not_change_its_node() {
    let machine = look(&fixture::server());
    let mut status = NodeStatus::default();
    assert!(machine.put_on(&mut status, None));
    assert_eq!(status.allocatable, status.capacity);
    let engines = &mut status.characteristics.as_mut().unwrap().engines;
    engines.iter_mut().find(|engine| engine.name == Engine::Docker).unwrap().version =
        Some("27.1".into());
    status.energy.as_mut().unwrap().carbon_intensity = Some(300.0);
    assert!(!machine.put_on(&mut status, None), "what others have added is kept");
    let kept = Resources { cpu: Some(Cpu::from_millis(500)), ..Resources::default() };
    assert!(machine.put_on(&mut status, Some(&kept)));
    assert_eq!(status.allocatable.unwrap().cpu, Some(Cpu::from_millis(7500)));
}

#[test]
fn the_older_control_groups_limit_as_well() {
    let fixture = fixture::virtual_machine()
        .text("/sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n")
        .text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n")
        .text("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    let capacity = look(&fixture).capacity;
    assert_eq!(capacity.memory.map(|memory| memory.get()), Some(268_435_456));
    assert_eq!(capacity.cpu.map(|cpu| cpu.millis()), Some(1500));
}

#[test]
fn a_64_bit_kernel_with_a_32_bit_system_takes_32_bit_images() {
    let fixture = fixture::raspberry_pi().bytes("/bin/sh", &fixture::program(1, 40));
    let cpu = look(&fixture).characteristics.cpu.unwrap();
    assert_eq!(cpu.architecture, Some(tombolo_model::Arch::Arm));
}

#[test]
fn a_name_is_generated_once_and_kept() {
    let written = fixture::container().write();
    let first = characterise(&written.root, &Ask::default());
    assert_eq!(first.uuid_source, Source::Generated);
    let kept = first.characteristics.uuid.unwrap();
    fs::write(written.path("/etc/machine-id"), "44445555666677778888999900001112\n").unwrap();
    let ask = Ask { uuid_kept: Some(&kept), ..Ask::default() };
    let second = characterise(&written.root, &ask);
    assert_eq!(second.uuid_source, Source::Kept);
    assert_eq!(second.characteristics.uuid, Some(kept));
    let without = characterise(&written.root, &Ask::default());
    assert_eq!(without.uuid_source, Source::MachineId);
}

#[test]
fn a_camera_that_is_unplugged_is_told_as_detached() {
    let written = fixture::raspberry_pi().write();
    let before = characterise(&written.root, &Ask::default()).characteristics.devices;
    fs::remove_dir_all(written.path("/sys/class/video4linux")).unwrap();
    let ask = Ask { devices_before: &before, ..Ask::default() };
    let machine = characterise(&written.root, &ask);
    let status = |name: &str| {
        let devices = &machine.characteristics.devices;
        devices.iter().find(|device| device.name == name).and_then(|device| device.status)
    };
    assert_eq!(status("squat.ai/video"), Some(DeviceStatus::Detached));
    assert_eq!(status("squat.ai/video.2"), Some(DeviceStatus::Detached));
    assert_eq!(status("squat.ai/serial"), Some(DeviceStatus::Available));
    assert_eq!(machine.capacity.devices.get("squat.ai/video"), None);
}

#[test]
fn the_place_is_what_people_say_then_what_the_region_says() {
    let place = |city: &str| Location { city: Some(city.into()), ..Location::default() };
    let regions = BTreeMap::from([("eu-west-1".to_owned(), place("Dublin"))]);
    let written = fixture::virtual_machine().write();
    let city = |ask: &Ask<'_>| characterise(&written.root, ask).characteristics.location;
    let table = Ask { regions: Some(&regions), ..Ask::default() };
    assert_eq!(city(&table), Some(place("Dublin")));
    let athens = place("Athens");
    assert_eq!(city(&Ask { location: Some(&athens), ..table }), Some(athens.clone()));
    let elsewhere = Location { region: Some("moon-1".into()), ..Location::default() };
    assert_eq!(city(&Ask { region: Some("moon-1"), ..table }), Some(elsewhere));
    let bare = fixture::laptop().write();
    assert_eq!(characterise(&bare.root, &table).characteristics.location, None);
}

#[test]
fn the_load_is_what_happened_since_the_last_sample() {
    let written = fixture::server().write();
    let mut sampler = Sampler::new(written.root.clone(), "/");
    let first = sampler.sample();
    assert_eq!((first.cpu_busy, first.watts), (None, None));
    assert_eq!(first.memory_available, Some(100_000_000 * 1024));
    assert_eq!(first.temperature_celsius, Some(41.0));
    assert_eq!((first.uptime_seconds, first.load_average), (Some(3600.5), Some(0.5)));
    fs::write(written.path("/proc/stat"), "cpu  150 0 125 825 0 0 0 0 0 0\n").unwrap();
    fs::write(written.path("/proc/uptime"), "3602.50 7000.00\n").unwrap();
    let counter = written.path("/sys/class/powercap/intel-rapl:0/energy_uj");
    fs::write(counter, "7000000\n").unwrap();
    let second = sampler.sample();
    assert_eq!(second.cpu_busy, Some(0.75));
    assert_eq!(second.watts, Some(3.0));
}

/// What a file may hold when its driver, its disk or its maker has gone wrong.
const GARBAGE: &[&[u8]] = &[
    b"",
    b"\n\n\n",
    b"\xff\xfe\x00\x00\x80:\xc0=\xe2\x28",
    b"99999999999999999999999999999999999999",
    b"-1",
    b": = \" ' ( ) { } [ ] # \\ / * \x00\n:::::::\n=\n* * * *\n",
    b"cpu 18446744073709551615 18446744073709551615 1 18446744073709551615\n",
];

#[test]
fn no_broken_file_of_any_machine_stops_the_looking() {
    let machines = [
        fixture::server(),
        fixture::raspberry_pi(),
        fixture::laptop(),
        fixture::virtual_machine(),
        fixture::container(),
        super::security::hardened(),
        super::security::careless(),
    ];
    for machine in machines {
        let written = machine.write();
        let mut count = 0;
        for (path, thing) in &machine.things {
            let (Thing::Text(_) | Thing::Bytes(_)) = thing else { continue };
            let real = written.path(path);
            let whole = fs::read(&real).unwrap();
            let garbage = GARBAGE[count % GARBAGE.len()];
            count += 1;
            // Some may not be written to, so each is made anew.
            fs::remove_file(&real).unwrap();
            fs::write(&real, garbage).unwrap();
            examine(&written.root);
            let cut = whole.len() / 2;
            fs::write(&real, &whole[..cut]).unwrap();
            examine(&written.root);
            fs::remove_file(&real).unwrap();
            fs::create_dir(&real).unwrap();
            examine(&written.root);
            fs::remove_dir(&real).unwrap();
            examine(&written.root);
            fs::write(&real, &whole).unwrap();
        }
    }
}

#[test]
fn a_machine_whose_every_file_is_broken_is_still_a_machine() {
    for garbage in GARBAGE {
        let mut machine = super::security::hardened();
        machine.things.extend(fixture::server().things);
        machine.things.extend(fixture::raspberry_pi().things);
        for thing in machine.things.values_mut() {
            if let Thing::Text(_) | Thing::Bytes(_) = thing {
                *thing = Thing::Bytes(garbage.to_vec());
            }
        }
        examine(&machine.write().root);
    }
}

/// Everything that there is, and that it can be written down.
fn examine(root: &Root) {
    let machine = characterise(root, &Ask::default());
    let node = serde_json::to_value(&machine).unwrap();
    assert!(
        serde_json::from_value::<tombolo_model::characteristics::Characteristics>(
            node["characteristics"].clone()
        )
        .is_ok()
    );
    let facts = Facts::gather(root, &security::Ask { data: Some("/data"), ..Default::default() });
    assert!(security::judge(&facts).score <= 100);
    let mut sampler = Sampler::new(root.clone(), "/");
    sampler.sample();
    sampler.sample();
}
