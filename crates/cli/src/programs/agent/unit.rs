//! The systemd unit of an agent, as text. Plain; written by `tombolo agent install`.

use std::path::Path;

/// The name of the unit.
pub(super) const NAME: &str = "tombolo-agent.service";
/// Where the unit keeps its data unless it is told otherwise; systemd makes this folder itself.
pub(super) const DATA: &str = "/var/lib/tombolo-agent";

/// The unit that runs `program` with the data folder `data` and more options.
pub(super) fn text(program: &Path, data: &Path, options: &[String]) -> String {
    let exec = [program.as_os_str(), "agent".as_ref(), "--data".as_ref(), data.as_os_str()];
    let exec = exec.into_iter().chain(options.iter().map(AsRef::as_ref));
    // In a command `$` means something; elsewhere it is a letter like any other.
    let exec: Vec<String> =
        exec.map(|word| quoted(&word.to_string_lossy().replace('$', "$$"))).collect();
    let (mounts, state) = match data == Path::new(DATA) {
        true => (String::new(), "StateDirectory=tombolo-agent\nStateDirectoryMode=0700\n"),
        false => (format!("RequiresMountsFor={}\n", quoted(&data.to_string_lossy())), ""),
    };
    format!(
        "\
[Unit]
Description=Tombolo agent: runs what is assigned to this machine
Wants=network-online.target
After=network-online.target
# It goes on trying for ever: a machine on the edge has nobody who starts it again.
StartLimitIntervalSec=0
{mounts}
[Service]
Type=exec
ExecStart={exec}
{state}Restart=always
RestartSec=2s
# What it runs goes on when the agent ends or is replaced by a newer one: it is found again.
KillMode=process
# It makes cgroups for what it runs, with their limits.
Delegate=yes
TasksMax=infinity
LimitNOFILE=65536
# When memory is short, a workload goes before the one who would start it again.
OOMScoreAdjust=-500

# What follows holds for the workloads too, so nothing of it is in the way of an ordinary program.
# The agent confines each of them further, as a user of its App.
LockPersonality=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
",
        exec = exec.join(" "),
    )
}

/// A word as systemd reads it back: `%` means something there, blanks part words, lines end settings.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.:@+,=".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    let mut text = String::from("\"");
    for character in word.chars() {
        match character {
            '%' => text.push_str("%%"),
            '\n' => text.push_str("\\n"),
            '"' | '\\' => text.extend(['\\', character]),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn says_all_that_systemd_needs() {
        let text = text(Path::new("/usr/local/bin/tombolo"), Path::new(DATA), &[]);
        let settings: Vec<&str> =
            text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        expect![[r#"
            [Unit]
            Description=Tombolo agent: runs what is assigned to this machine
            Wants=network-online.target
            After=network-online.target
            StartLimitIntervalSec=0
            [Service]
            Type=exec
            ExecStart=/usr/local/bin/tombolo agent --data /var/lib/tombolo-agent
            StateDirectory=tombolo-agent
            StateDirectoryMode=0700
            Restart=always
            RestartSec=2s
            KillMode=process
            Delegate=yes
            TasksMax=infinity
            LimitNOFILE=65536
            OOMScoreAdjust=-500
            LockPersonality=yes
            ProtectClock=yes
            ProtectHostname=yes
            ProtectKernelLogs=yes
            ProtectKernelModules=yes
            ProtectKernelTunables=yes
            RestrictRealtime=yes
            RestrictSUIDSGID=yes
            SystemCallArchitectures=native
            [Install]
            WantedBy=multi-user.target"#]]
        .assert_eq(&settings.join("\n"));
    }

    #[test]
    fn another_folder_is_waited_for_and_odd_names_are_quoted() {
        let options = ["--cpu=3".to_owned(), "--region=the\nnorth".to_owned()];
        let text = text(Path::new("/opt/to mbolo"), Path::new("/srv/50% $edge"), &options);
        assert!(text.contains("RequiresMountsFor=\"/srv/50%% $edge\"\n"), "{text}");
        assert!(text.contains(
            "ExecStart=\"/opt/to mbolo\" agent --data \"/srv/50%% $$edge\" \
                --cpu=3 \"--region=the\\nnorth\"\n"
        ));
        assert!(!text.contains("StateDirectory"));
    }
}
