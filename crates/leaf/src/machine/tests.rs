//! Texts of a small machine, and the samples that they become.

use expect_test::{Expect, expect};

use super::*;

const WHOSE: Whose<'_> = Whose { node: "crane", host: "4f2a" };

#[track_caller]
fn check(texts: &Texts, expect: Expect) {
    let found = samples(texts, None, WHOSE, 1000);
    let line = |one: &Measured| {
        let labels = one.labels.without(|name| matches!(name, "job" | "instance" | "icos_host_id"));
        assert_eq!(one.labels.get("instance"), "crane");
        assert_eq!(one.at_ms, 1000);
        format!("{labels} {}\n", one.value)
    };
    let lines = found.iter().filter(|one| one.labels.get("__name__") != "up").map(line);
    expect.assert_eq(&lines.collect::<String>());
}

#[test]
fn processors_are_told_in_seconds_by_mode() {
    let stat = "cpu  300 0 100 800 0 0 0 0 0 0\ncpu0 150 5 50 400 7 1 2 3 9 9\ncpu1 150 x\n\
                intr 77 1 2\nctxt 5\nbtime 1700000000\nprocesses 9\nprocs_running 2\nprocs_blocked 0\n";
    check(
        &Texts { stat: stat.to_owned(), ..Texts::default() },
        expect![[r#"
            {__name__="node_cpu_seconds_total", cpu="0", mode="user"} 1.5
            {__name__="node_cpu_seconds_total", cpu="0", mode="nice"} 0.05
            {__name__="node_cpu_seconds_total", cpu="0", mode="system"} 0.5
            {__name__="node_cpu_seconds_total", cpu="0", mode="idle"} 4
            {__name__="node_cpu_seconds_total", cpu="0", mode="iowait"} 0.07
            {__name__="node_cpu_seconds_total", cpu="0", mode="irq"} 0.01
            {__name__="node_cpu_seconds_total", cpu="0", mode="softirq"} 0.02
            {__name__="node_cpu_seconds_total", cpu="0", mode="steal"} 0.03
            {__name__="node_cpu_seconds_total", cpu="1", mode="user"} 1.5
            {__name__="node_intr_total"} 77
            {__name__="node_context_switches_total"} 5
            {__name__="node_boot_time_seconds"} 1700000000
            {__name__="node_forks_total"} 9
            {__name__="node_procs_running"} 2
            {__name__="node_procs_blocked"} 0
        "#]],
    );
}

#[test]
fn memory_load_and_pressure_are_told_in_their_units() {
    check(
        &Texts {
            meminfo: "MemTotal:  2048 kB\nHugePages_Total:  0\nMemFree: kB\nSwapFree: 1 kB\n"
                .to_owned(),
            loadavg: "0.5 1 1.5 2/300 4711\n".to_owned(),
            pressure: vec![
                ("cpu", "some avg10=0.00 total=2500000\nfull avg10=0.00 total=7\n".to_owned()),
                ("io", "some avg10=0.00 total=1\nfull avg10=0.00 total=500000\n".to_owned()),
            ],
            ..Texts::default()
        },
        expect![[r#"
            {__name__="node_load1"} 0.5
            {__name__="node_load5"} 1
            {__name__="node_load15"} 1.5
            {__name__="node_memory_MemTotal_bytes"} 2097152
            {__name__="node_memory_SwapFree_bytes"} 1024
            {__name__="node_pressure_cpu_waiting_seconds_total"} 2.5
            {__name__="node_pressure_io_waiting_seconds_total"} 0.000001
            {__name__="node_pressure_io_stalled_seconds_total"} 0.5
        "#]],
    );
}

#[test]
fn whole_disks_are_told_and_their_parts_are_not() {
    let rows = "254 0 vda 10 0 16 20 4 0 8 6 1 30 40 0 0 0 0\n254 1 vda1 1 0 1 1 1 0 1 1 0 1 1\n\
                7 0 loop0 1 0 1 1 1 0 1 1 0 1 1\n";
    check(
        &Texts { diskstats: rows.to_owned(), ..Texts::default() },
        expect![[r#"
            {__name__="node_disk_reads_completed_total", device="vda"} 10
            {__name__="node_disk_read_bytes_total", device="vda"} 8192
            {__name__="node_disk_read_time_seconds_total", device="vda"} 0.02
            {__name__="node_disk_writes_completed_total", device="vda"} 4
            {__name__="node_disk_written_bytes_total", device="vda"} 4096
            {__name__="node_disk_write_time_seconds_total", device="vda"} 0.006
            {__name__="node_disk_io_now", device="vda"} 1
            {__name__="node_disk_io_time_seconds_total", device="vda"} 0.03
            {__name__="node_disk_io_time_weighted_seconds_total", device="vda"} 0.04
        "#]],
    );
    let disks = ["sda", "nvme0n1", "mmcblk0", "dm-0", "md127", "xvdb"];
    assert!(disks.iter().all(|name| is_disk(name)));
    let parts = ["sda1", "nvme0n1p2", "mmcblk0p1", "xvdb3", "ram0", "sr0", "zram0"];
    assert!(!parts.iter().any(|name| is_disk(name)));
}

#[test]
fn cables_of_containers_are_left_out() {
    let text = "Inter-|   Receive\n face |bytes packets\n  eth0: 1 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0\n\
                lo: 1 1 1 1 0 0 0 0 1 1 1 1 0 0 0 0\nveth12: 1 1 1 1 0 0 0 0 1 1 1 1 0 0 0 0\n";
    check(
        &Texts { netdev: text.to_owned(), ..Texts::default() },
        expect![[r#"
            {__name__="node_network_receive_bytes_total", device="eth0"} 1
            {__name__="node_network_receive_packets_total", device="eth0"} 2
            {__name__="node_network_receive_errs_total", device="eth0"} 3
            {__name__="node_network_receive_drop_total", device="eth0"} 4
            {__name__="node_network_transmit_bytes_total", device="eth0"} 5
            {__name__="node_network_transmit_packets_total", device="eth0"} 6
            {__name__="node_network_transmit_errs_total", device="eth0"} 7
            {__name__="node_network_transmit_drop_total", device="eth0"} 8
        "#]],
    );
}

#[test]
fn each_device_is_a_file_system_once() {
    let text = "proc /proc proc rw 0 0\n/dev/vda1 / ext4 rw 0 0\n/dev/vda1 /srv/a ext4 rw 0 0\n\
                overlay /var/lib/docker/overlay2/x/merged overlay rw 0 0\n\
                /dev/vdb /mnt/my\\040disk xfs rw 0 0\ntmpfs /run tmpfs rw 0 0\nshort\n";
    let own = |device: &str, kind: &str, place: &str| {
        (device.to_owned(), kind.to_owned(), place.to_owned())
    };
    let expected = [own("/dev/vda1", "ext4", "/"), own("/dev/vdb", "xfs", "/mnt/my disk")];
    assert_eq!(mounts(text), expected);
}

#[test]
fn a_share_is_of_the_time_that_passed() {
    let stat = |busy: u32, idle: u32| format!("cpu  {busy} 0 0 {idle} 0 0 0 0\n");
    assert_eq!(busy_share(&stat(10, 100), &stat(35, 175)), Some(0.25));
    assert_eq!(busy_share(&stat(10, 100), &stat(10, 100)), None);
    assert_eq!(busy_share(&stat(10, 100), &stat(1, 200)), None);
    assert_eq!(busy_share("", &stat(1, 1)), None);
}

proptest::proptest! {
    #[test]
    fn any_text_is_read(text in ".{0,400}") {
        let texts = Texts {
            stat: text.clone(),
            loadavg: text.clone(),
            meminfo: text.clone(),
            diskstats: text.clone(),
            netdev: text.clone(),
            pressure: vec![("io", text.clone())],
            ..Texts::default()
        };
        samples(&texts, None, WHOSE, 0);
        mounts(&text);
    }
}
