//! The machine that the tests run on, held against what the kernel says in other ways.

use std::net::{IpAddr, UdpSocket};

use tombolo_host::security::{self, Facts, Verdict};
use tombolo_host::{Ask, Doctor, Root, Sampler, characterise};
use tombolo_model::Arch;

#[test]
fn this_machine_is_what_the_kernel_says() {
    let machine = characterise(&Root::real(), &Ask::default());
    let what = &machine.characteristics;
    let kernel = rustix::system::uname();
    let totals = rustix::system::sysinfo();

    let release = what.os.as_ref().and_then(|os| os.kernel.as_deref());
    assert_eq!(release, kernel.release().to_str().ok());
    assert_eq!(machine.hostname.as_deref(), kernel.nodename().to_str().ok());
    let memory = u64::from(totals.mem_unit) * totals.totalram;
    assert_eq!(what.memory.map(|memory| memory.get()), Some(memory));

    let cpu = what.cpu.clone().unwrap();
    assert_eq!(cpu.architecture, std::env::consts::ARCH.parse::<Arch>().ok());
    let usable = std::thread::available_parallelism().unwrap().get();
    let threads = usize::try_from(cpu.threads.unwrap()).unwrap();
    assert!(threads >= usable, "{threads} threads, of which {usable} may be used");
    assert!(cpu.cores.unwrap() <= cpu.threads.unwrap());

    let disk = rustix::fs::statvfs("/").unwrap();
    let storage = machine.capacity.storage.unwrap().get();
    assert_eq!(storage, disk.f_blocks * disk.f_frsize);
    assert!(machine.capacity.memory.unwrap().get() <= memory);
}

#[test]
fn every_address_is_one_of_this_machine() {
    let machine = characterise(&Root::real(), &Ask::default());
    for address in &machine.addresses {
        let address: IpAddr = address.parse().unwrap();
        // Only an address of one's own can be bound to.
        UdpSocket::bind((address, 0)).unwrap_or_else(|error| panic!("{address}: {error}"));
    }
}

#[test]
fn the_load_of_this_machine_is_within_bounds() {
    let mut sampler = Sampler::new(Root::real(), "/");
    let first = sampler.sample();
    let second = sampler.sample();
    assert!(second.uptime_seconds >= first.uptime_seconds);
    assert!(second.memory_available <= second.memory_total);
    assert!(second.disk_free <= second.disk_total);
    assert!(second.cpu_busy.is_none_or(|busy| (0.0..=1.0).contains(&busy)));
    let up = rustix::system::sysinfo().uptime;
    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    let up = up as f64;
    assert!((second.uptime_seconds.unwrap() - up).abs() < 60.0);
}

#[test]
fn this_machine_can_be_examined_as_it_is() {
    let root = Root::real();
    let facts = Facts::gather(&root, &security::Ask::default());
    let doctor = Doctor {
        machine: characterise(&root, &Ask::default()),
        load: Sampler::new(root, "/").sample(),
        security: security::judge(&facts),
    };
    let text = doctor.to_string();
    assert!(text.contains("Security score "));
    let counted: usize = [Verdict::Pass, Verdict::Fail, Verdict::NotApplicable, Verdict::Unknown]
        .iter()
        .map(|verdict| doctor.count(*verdict))
        .sum();
    assert_eq!(counted, doctor.security.rows.len());
    let json = serde_json::to_value(&doctor).unwrap();
    assert_eq!(json["security"]["score"], doctor.security.score);
}
