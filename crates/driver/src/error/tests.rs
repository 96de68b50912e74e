//! What a user reads of each error, and is told to do.

use expect_test::{Expect, expect};

use super::*;

/// Every error, what a user reads of it, and what the user is told to do.
#[track_caller]
fn check(errors: &[Error], expect: Expect) {
    let line = |error: &Error| format!("{}: {error}\n  {}\n", error.reason(), error.help());
    expect.assert_eq(&errors.iter().map(line).collect::<String>());
}

fn cause() -> Cause {
    Arc::new(std::io::Error::other("never shown here"))
}

fn id() -> InstanceId {
    InstanceId::new("uid", 1).unwrap()
}

/// One of each.
fn errors() -> Vec<Error> {
    let image = || "web:1".to_owned();
    let doing = || "write a file".to_owned();
    let what = || "x".to_owned();
    let engine = Engine::Docker;
    vec![
        Error::Unreachable { engine, address: "/run/x.sock".into(), source: cause() },
        Error::NoSuchImage { image: image() },
        Error::ImageOutOfReach { image: image(), source: cause() },
        Error::ImageDenied { image: image() },
        Error::PortTaken { port: 80, protocol: Protocol::Tcp, holder: Some("nginx".into()) },
        Error::PortTaken { port: 80, protocol: Protocol::Udp, holder: None },
        Error::CommandNotFound {
            command: "run".into(),
            looked_in: vec!["/bin".into(), "/usr/bin".into()],
        },
        Error::CommandNotFound { command: "/run".into(), looked_in: Vec::new() },
        Error::CommandNotInImage { command: "run".into() },
        Error::NotExecutable { command: "run".into(), source: cause() },
        Error::NoSuchFolder { path: "/srv".into() },
        Error::NoSuchUser { user: "web".into() },
        Error::NotPermitted { doing: doing(), source: cause() },
        Error::NotAllowed { privilege: Privilege::HostPath },
        Error::CannotConfine { why: "no user namespaces".into() },
        Error::DiskFull { doing: doing() },
        Error::Exhausted { doing: doing(), source: cause() },
        Error::NoSuchEntry { what: what() },
        Error::Invalid { what: what() },
        Error::Unsupported { engine, what: "run processes".into() },
        Error::NoSuchInstance { id: id() },
        Error::NotRunning { id: id() },
        Error::NoSuchPort { port: 81, has: vec![80, 443] },
        Error::NoSuchPort { port: 81, has: Vec::new() },
        Error::Refused { port: 80, why: "connection refused".into() },
        Error::TimedOut { doing: "ending it".into(), after: Duration::from_secs(30) },
        Error::Failed { doing: doing(), source: cause() },
    ]
}

#[test]
fn an_error_says_what_its_row_in_the_table_says() {
    check(
        &errors(),
        expect![[r#"
            EngineUnreachable: cannot reach the docker engine at /run/x.sock
              Start the docker engine, or tell the agent where it is; it looked at /run/x.sock.
            NoSuchImage: image web:1 does not exist, neither here nor in its registry
              Check the name and the tag of web:1, or push it to its registry.
            ImageOutOfReach: image web:1 is not on the node and its registry cannot be reached
              It starts by itself once the registry is reached; or load web:1 on the node by hand.
            ImageDenied: the registry does not let the node pull image web:1
              Log the engine of the node in to the registry, or use a public image.
            PortTaken: tcp port 80 of the node is taken by nginx
              End what listens on port 80, choose another port, or let the component take any free one.
            PortTaken: udp port 80 of the node is taken
              End what listens on port 80, choose another port, or let the component take any free one.
            CommandNotFound: command "run" was not found in /bin:/usr/bin
              Install "run" on the node, write its whole path, or choose a node that has it.
            CommandNotFound: command "/run" was not found
              Install "/run" on the node, write its whole path, or choose a node that has it.
            CommandNotInImage: command "run" was not found in the image
              Check the command, or use an image that has it.
            NotExecutable: command "run" may not be executed
              Make "run" an executable file for the user that runs it.
            NoSuchFolder: working directory "/srv" does not exist
              Create the folder "/srv", or leave the working directory out.
            NoSuchUser: user "web" does not exist on the node
              Add the user "web" to the node, or leave it out.
            NotPermitted: not permitted to write a file
              Run the agent as root, or leave out what needs it.
            NotAllowed: the site does not allow folders of the host
              A manager of the site can allow it: add host-path to spec.allow of the Site.
            CannotConfine: the node cannot confine programs: no user namespaces
              Run the agent as root or let it make user namespaces; or allow unconfined-process in spec.allow of the Site.
            DiskFull: disk is full: cannot write a file
              Free some room; it goes on by itself as soon as there is any.
            Exhausted: the node has no memory or processes left: cannot write a file
              Stop something on the node, or give its components less.
            NoSuchEntry: there is no x
              Write it in the namespace of the App; if it is there, add the entry.
            Invalid: x
              Change what the component asks for.
            Unsupported: the docker engine cannot run processes
              Leave it out, or choose a site with another engine.
            NoSuchInstance: there is no instance uid.1
              It may have been removed; look again.
            NotRunning: instance uid.1 is not running
              Wait until it runs, and try again.
            NoSuchPort: its component names no port 81; it has 80, 443
              Choose one of its ports.
            NoSuchPort: its component names no port 81; it has none
              Choose one of its ports.
            ConnectionRefused: it runs, but nothing listens on its port 80: connection refused
              Wait until it listens, and try again.
            TimedOut: ending it took longer than 30s
              The machine may be busy; it is tried again.
            Failed: cannot write a file
              The cause says more; it is tried again.
        "#]],
    );
}
