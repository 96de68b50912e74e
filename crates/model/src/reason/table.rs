//! The rows of the table of reasons. To add a reason: write its row where it belongs, its word into the
//! list in `tests.rs`, and run the tests of this crate with `UPDATE_EXPECT=1`; they write
//! `docs/reasons.md`.
//!
//! `on` says on which objects a program meets the word. `sentence` is what the user reads first, `help`
//! what can be done; who tells the reason fills their `{blanks}`. Where there is more to say than a row
//! can, the teller writes the sentence.

use super::Blame;

macro_rules! reasons {
    ($($word:ident {
        on: $on:literal, blames: $blames:ident,
        sentence: $sentence:literal,
        help: $help:literal,
    })+) => {
        /// Why something is as it is, as a word that programs read. A word never changes.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
        )]
        pub enum Reason { $( #[doc = $sentence] $word, )+ }

        impl Reason {
            /// Every reason, in the order of the table.
            pub const ALL: &[Reason] = &[$( Reason::$word, )+];

            /// The word on the wire.
            pub const fn word(self) -> &'static str {
                match self { $( Reason::$word => stringify!($word), )+ }
            }

            /// On which objects a program meets it.
            pub fn on(self) -> &'static str {
                match self { $( Reason::$word => $on, )+ }
            }

            pub fn blames(self) -> Blame {
                match self { $( Reason::$word => Blame::$blames, )+ }
            }

            pub(super) fn sentence(self) -> &'static str {
                match self { $( Reason::$word => $sentence, )+ }
            }

            pub(super) fn help(self) -> &'static str {
                match self { $( Reason::$word => $help, )+ }
            }
        }
    };
}

reasons! {
    // An engine cannot start an instance.
    EngineUnreachable {
        on: "App, Assignment", blames: Engine,
        sentence: "cannot reach the {engine} engine at {address}",
        help: "Start the {engine} engine, or tell the agent where it is; it looked at {address}.",
    }
    NoSuchImage {
        on: "App, Assignment", blames: Component,
        sentence: "image {image} does not exist, neither here nor in its registry",
        help: "Check the name and the tag of {image}, or push it to its registry.",
    }
    ImageOutOfReach {
        on: "App, Assignment", blames: Network,
        sentence: "image {image} is not on the node and its registry cannot be reached",
        help: "It starts by itself once the registry is reached; or load {image} on the node by \
               hand.",
    }
    ImageDenied {
        on: "App, Assignment", blames: User,
        sentence: "the registry does not let the node pull image {image}",
        help: "Log the engine of the node in to the registry, or use a public image.",
    }
    PortTaken {
        on: "App, Assignment", blames: Node,
        sentence: "{protocol} port {port} of the node is taken{by}",
        help: "End what listens on port {port}, choose another port, or let the component take any \
               free one.",
    }
    CommandNotFound {
        on: "App, Assignment, answer", blames: Node,
        sentence: "command {command} was not found{within}",
        help: "Install {command} on the node, write its whole path, or choose a node that has \
               it.",
    }
    CommandNotInImage {
        on: "App, Assignment", blames: Component,
        sentence: "command {command} was not found in the image",
        help: "Check the command, or use an image that has it.",
    }
    NotExecutable {
        on: "App, Assignment, answer", blames: Node,
        sentence: "command {command} may not be executed",
        help: "Make {command} an executable file for the user that runs it.",
    }
    NoSuchFolder {
        on: "App, Assignment", blames: Node,
        sentence: "working directory {path} does not exist",
        help: "Create the folder {path}, or leave the working directory out.",
    }
    NoSuchUser {
        on: "App, Assignment", blames: Node,
        sentence: "user {user} does not exist on the node",
        help: "Add the user {user} to the node, or leave it out.",
    }
    NotPermitted {
        on: "App, Assignment", blames: Node,
        sentence: "not permitted to {doing}",
        help: "Run the agent as root, or leave out what needs it.",
    }
    NotAllowed {
        on: "App, Assignment", blames: User,
        sentence: "the site does not allow {what}",
        help: "A manager of the site can allow it: add {privilege} to spec.allow of the Site.",
    }
    CannotConfine {
        on: "App, Assignment, Node", blames: Node,
        sentence: "the node cannot confine programs: {why}",
        help: "Run the agent as root or let it make user namespaces; or allow unconfined-process in \
               spec.allow of the Site.",
    }
    DiskFull {
        on: "App, Assignment", blames: Node,
        sentence: "disk is full: cannot {doing}",
        help: "Free some room; it goes on by itself as soon as there is any.",
    }
    Exhausted {
        on: "App, Assignment", blames: Node,
        sentence: "the node has no memory or processes left: cannot {doing}",
        help: "Stop something on the node, or give its components less.",
    }
    NoSuchEntry {
        on: "App, Assignment", blames: User,
        sentence: "there is no {what}",
        help: "Write it in the namespace of the App; if it is there, add the entry.",
    }
    Invalid {
        on: "App, Assignment, answer", blames: Component,
        sentence: "{what}",
        help: "Change what the component asks for.",
    }
    Unsupported {
        on: "App, Assignment, answer", blames: Engine,
        sentence: "the {engine} engine cannot {what}",
        help: "Leave it out, or choose a site with another engine.",
    }
    TimedOut {
        on: "App, Assignment", blames: Engine,
        sentence: "{doing} took longer than {after}",
        help: "The machine may be busy; it is tried again.",
    }
    Failed {
        on: "App, Assignment", blames: Unknown,
        sentence: "cannot {doing}",
        help: "The cause says more; it is tried again.",
    }

    // What is asked of an instance cannot be done.
    NoSuchInstance {
        on: "answer", blames: Unknown,
        sentence: "there is no instance {id}",
        help: "It may have been removed; look again.",
    }
    NotRunning {
        on: "answer", blames: Unknown,
        sentence: "instance {id} is not running",
        help: "Wait until it runs, and try again.",
    }
    NoSuchPort {
        on: "answer", blames: User,
        sentence: "its component names no port {port}; {has}",
        help: "Choose one of its ports.",
    }
    ConnectionRefused {
        on: "answer", blames: Component,
        sentence: "it runs, but nothing listens on its port {port}: {why}",
        help: "Wait until it listens, and try again.",
    }
    NodeUnreachable {
        on: "answer", blames: Network,
        sentence: "the agent of node {node} is not connected; {heard}",
        help: "What runs there goes on; `tombolo node ls` shows which nodes are there.",
    }
    AgentFailed {
        on: "answer", blames: Unknown,
        sentence: "the agent could not do it: {why}",
        help: "The log of the agent says more.",
    }
    Quarantined {
        on: "answer", blames: User,
        sentence: "another machine is alive with the same identity; this one came later",
        help: "Let this machine join anew, with an empty data folder.",
    }

    // How an instance ended: the first word of an Assignment's `lastExit`.
    Completed {
        on: "App, Assignment", blames: Component,
        sentence: "it ended with code 0",
        help: "A component is meant to keep running: keep its program in the foreground.",
    }
    Error {
        on: "App, Assignment", blames: Component,
        sentence: "it ended with code {code}",
        help: "`tombolo logs` shows what it wrote.",
    }
    Killed {
        on: "App, Assignment", blames: Component,
        sentence: "it was ended by signal {signal}",
        help: "`tombolo logs` shows what it wrote.",
    }
    OutOfMemory {
        on: "App, Assignment", blames: Component,
        sentence: "it used more memory than it is allowed",
        help: "Give the component more memory.",
    }
    Lost {
        on: "App, Assignment", blames: Unknown,
        sentence: "it ended, and nobody saw how",
        help: "`tombolo logs` shows what it wrote; it is started again by itself.",
    }
    Rebooted {
        on: "App, Assignment", blames: Nobody,
        sentence: "the machine was restarted",
        help: "",
    }
    Ended {
        on: "App, Assignment", blames: Unknown,
        sentence: "it ended",
        help: "`tombolo logs` shows what it wrote.",
    }
    Stopped {
        on: "App, Assignment", blames: Nobody,
        sentence: "stopped on request",
        help: "",
    }

    // How far an instance is.
    Waiting {
        on: "Assignment", blames: Nobody,
        sentence: "waits for {missing} to come up first",
        help: "",
    }
    Starting {
        on: "Assignment", blames: Nobody,
        sentence: "{doing}",
        help: "",
    }
    Checking {
        on: "Assignment", blames: Nobody,
        sentence: "it runs and has not answered its check yet",
        help: "",
    }
    Running {
        on: "App, Assignment, Node", blames: Nobody,
        sentence: "it is up",
        help: "",
    }
    Restarting {
        on: "Assignment", blames: Nobody,
        sentence: "it is being started again",
        help: "",
    }
    Updating {
        on: "Assignment", blames: Nobody,
        sentence: "the old one serves until the new one is well: {new}",
        help: "",
    }
    CheckFails {
        on: "App, Assignment", blames: Component,
        sentence: "{answer}",
        help: "`tombolo logs` shows what it wrote; the check may also be wrong.",
    }
    Unhealthy {
        on: "App, Assignment", blames: Component,
        sentence: "{answer}",
        help: "`tombolo logs` shows what it wrote; the check may also be wrong.",
    }
    CrashLoop {
        on: "App, Assignment", blames: Either,
        sentence: "{problem}; it failed {often} and waits {seconds} s before the next start",
        help: "`tombolo logs` shows what it wrote.",
    }
    RolledBack {
        on: "App, Assignment", blames: Component,
        sentence: "went back to the last good revision: {problem}",
        help: "Mend the App, or apply again what ran before.",
    }
    CutOff {
        on: "App, Assignment", blames: Nobody,
        sentence: "taken down: the controller is out of reach",
        help: "",
    }

    // What happened to an instance.
    Started {
        on: "Assignment", blames: Nobody,
        sentence: "it is up as {instance}",
        help: "",
    }
    Restarted {
        on: "Assignment", blames: Nobody,
        sentence: "restart {number}: {why}",
        help: "",
    }
    Abandoned {
        on: "Assignment", blames: Nobody,
        sentence: "the server waits for it no longer, although its agent has not said that it is down: {why}",
        help: "",
    }

    // How far an App is, and what happened to it.
    Deploying {
        on: "App, Assignment", blames: Nobody,
        sentence: "waiting for {instances}",
        help: "",
    }
    Degraded {
        on: "App", blames: Unknown,
        sentence: "waiting for {instances}",
        help: "`tombolo get assignments` shows how far each instance has come.",
    }
    Placing {
        on: "App", blames: Nobody,
        sentence: "looking for places",
        help: "",
    }
    PlaceNotFound {
        on: "App", blames: Unknown,
        sentence: "{instance} waits for a place: {why}",
        help: "It is tried again when something changes; asking for less makes it easier.",
    }
    Unplaceable {
        on: "App", blames: User,
        sentence: "{instance} has no place: {why}",
        help: "`tombolo why APP --node NODE` says what keeps it off a node.",
    }
    Placed {
        on: "App", blames: Nobody,
        sentence: "{instances}",
        help: "",
    }
    Moved {
        on: "App", blames: Nobody,
        sentence: "{instance} (before on {node}): {why}",
        help: "",
    }
    BetterPlaces {
        on: "App", blames: Nobody,
        sentence: "by {points} points of score, what moving costs taken off, it would be better to move \
                   {moves}; `tombolo rebalance` does so",
        help: "",
    }
    Returned {
        on: "App", blames: Nobody,
        sentence: "{instance} (before on {node}): its node has returned, and the rule says that \
                   the original stays",
        help: "",
    }
    Translated {
        on: "CodecoApp, LowLevelOrchestration", blames: Nobody,
        sentence: "it was made into an App",
        help: "",
    }

    // Whether Nodes and Sites are alive.
    Heartbeat {
        on: "Node, Site", blames: Nobody,
        sentence: "heartbeat {from}",
        help: "",
    }
    HeartbeatLost {
        on: "Node, Site", blames: Network,
        sentence: "no heartbeat for {silent} s, lease lasts {lease} s",
        help: "Check that the machine is on, its agent runs and its network reaches the server.",
    }
    LinkSilent {
        on: "Node", blames: Network,
        sentence: "no heartbeat for {silent} s, but {sibling} still reaches the machine: its link \
                   or its agent is down",
        help: "Check that its agent runs and its network reaches the server.",
    }
    NodeSilent {
        on: "Assignment, Node, answer", blames: Network,
        sentence: "no heartbeat for {silent} s, and {sibling} does not reach the machine either",
        help: "Check that the machine is on.",
    }
    NeverHeard {
        on: "Node, Site", blames: Network,
        sentence: "has never sent a heartbeat",
        help: "Start the agent of the machine.",
    }
    Released {
        on: "Node, Site", blames: Nobody,
        sentence: "its agent has signed off, as at a shutdown",
        help: "",
    }
    SaidDown {
        on: "Node", blames: Node,
        sentence: "the agent of its site says that it is down: {why}",
        help: "Check what the site's cluster says about the machine.",
    }
    NodesReady {
        on: "Site", blames: Nobody,
        sentence: "{ready} of {all} nodes ready",
        help: "",
    }
    NoNodeReady {
        on: "Site", blames: Node,
        sentence: "0 of {all} nodes ready",
        help: "`tombolo get nodes` says why for each.",
    }
    SiteReady {
        on: "Site", blames: Nobody,
        sentence: "the Site has become ready",
        help: "",
    }
    SiteNotReady {
        on: "Site", blames: Node,
        sentence: "the Site is no longer ready",
        help: "`tombolo describe site` says why.",
    }
    NodeReady {
        on: "Node", blames: Nobody,
        sentence: "the Node has become ready",
        help: "",
    }
    NodeNotReady {
        on: "Node", blames: Node,
        sentence: "the Node is no longer ready",
        help: "`tombolo describe node` says why.",
    }

    // What an agent says of its Node.
    CanWrite {
        on: "Node", blames: Nobody,
        sentence: "the agent can write to its disk again",
        help: "",
    }
    CannotWrite {
        on: "Node", blames: Node,
        sentence: "{why}",
        help: "Free some room, or mend the disk.",
    }
    Confined {
        on: "Node", blames: Nobody,
        sentence: "programs are confined",
        help: "",
    }
    ConfinedInPart {
        on: "Node", blames: Node,
        sentence: "programs are confined, except for {what}",
        help: "`tombolo agent doctor` on the machine says what to do (TMB-WRK).",
    }
    AllKnown {
        on: "Node", blames: Nobody,
        sentence: "the server knows everything that runs here",
        help: "",
    }
    Forgotten {
        on: "Node", blames: User,
        sentence: "the server was set back to a backup and does not know what goes on running \
                   here: {names}",
        help: "Apply the Apps again, or end it with `tombolo node drain {node}`.",
    }

    // What the server says of a Node and of those who come in by it.
    Joined {
        on: "Node", blames: Nobody,
        sentence: "a machine has joined",
        help: "",
    }
    JoinedAgain {
        on: "Node", blames: Nobody,
        sentence: "the same machine has joined again",
        help: "",
    }
    JoinedAnew {
        on: "Node", blames: Nobody,
        sentence: "it has joined anew",
        help: "",
    }
    Reinstalled {
        on: "Node", blames: Nobody,
        sentence: "the machine was set up anew and has joined; what it runs is kept",
        help: "",
    }
    Replaced {
        on: "Node", blames: Nobody,
        sentence: "another machine has joined in its place",
        help: "",
    }
    Cloned {
        on: "Node", blames: User,
        sentence: "two machines are alive with the identity of this node",
        help: "Let the later one join anew, with an empty data folder.",
    }
    TwoInstances {
        on: "Node", blames: User,
        sentence: "two machines are alive with the identity of this node",
        help: "Let the later one join anew, with an empty data folder.",
    }
    Exec {
        on: "Assignment", blames: Nobody,
        sentence: "{client} runs a command in it: {command}",
        help: "",
    }
    PortForward {
        on: "Assignment", blames: Nobody,
        sentence: "{client} connects to its port {port}",
        help: "",
    }
    Restored {
        on: "Namespace", blames: User,
        sentence: "{user} restored a backup; {access}",
        help: "Look through the tokens and the agents that are valid now.",
    }
    BackedUp {
        on: "Namespace", blames: Nobody,
        sentence: "{user} made a backup of everything, with its secrets",
        help: "",
    }

    // What another deployment manager says of its jobs, unless it has words of its own.
    Undeploying {
        on: "Assignment", blames: Nobody,
        sentence: "it is being taken down",
        help: "",
    }
    Deployed {
        on: "Assignment", blames: Nobody,
        sentence: "the deployment manager has handed it over",
        help: "",
    }
    JobDegraded {
        on: "App, Assignment", blames: Unknown,
        sentence: "the deployment manager says that it has failed",
        help: "The log of the deployment manager says more.",
    }
    TriedAgain {
        on: "Assignment", blames: Nobody,
        sentence: "{owner} has taken the job",
        help: "",
    }
    Told {
        on: "Assignment", blames: Unknown,
        sentence: "the deployment manager gives no reason",
        help: "The log of the deployment manager says more.",
    }

    // What probes say of the network.
    ProbesAnswered {
        on: "Link", blames: Nobody,
        sentence: "probes over it are answered",
        help: "",
    }
    ProbesLost {
        on: "Link", blames: Network,
        sentence: "probes over it are lost, while both ends are heard",
        help: "Look at the network between its ends, and whether a firewall lets the probes through.",
    }
    AsDeclared {
        on: "Link", blames: Nobody,
        sentence: "nothing that was measured contradicts what is declared",
        help: "",
    }
    NotAsDeclared {
        on: "Link", blames: Network,
        sentence: "its {metric} was measured to be {measured}, and is declared to be {declared}",
        help: "Mend the network, or declare what the link can keep: `tombolo edit link/NAME`.",
    }
    DelaysDoubted {
        on: "Node", blames: Node,
        sentence: "the delays that it tells contradict those that its peers measured: {peers}",
        help: "Its figures count no more until they agree; look at the machine and its clock.",
    }
    DelaysBelieved {
        on: "Node", blames: Nobody,
        sentence: "the delays that it tells agree with those that its peers measured",
        help: "",
    }

    // What happened to a loop of the server.
    LoopDied {
        on: "Namespace tombolo-system, Node", blames: Unknown,
        sentence: "the loop {loop} has died and is started again: {why}",
        help: "The log of its process says more; a loop that dies again and again is a bug in Tombolo.",
    }
    LoopLate {
        on: "Namespace tombolo-system", blames: Unknown,
        sentence: "the loop {loop} is late: it should have looked, or come to an end of it, by now",
        help: "`tombolo loops` shows what it does; the machine or its disk may be too slow.",
    }
    LoopOnTime {
        on: "Namespace tombolo-system", blames: Nobody,
        sentence: "the loop {loop} is no longer late",
        help: "",
    }
    LoopsOnTime {
        on: "Namespace tombolo-system", blames: Nobody,
        sentence: "no loop is dead or late",
        help: "",
    }

    // What became of a policy.
    PolicyHolds {
        on: "Policy", blames: Nobody,
        sentence: "what it asks for is so",
        help: "",
    }
    PolicyPending {
        on: "Policy", blames: Nobody,
        sentence: "it is violated, and not yet for long enough to count",
        help: "",
    }
    PolicyPredicted {
        on: "App, Node, Policy", blames: Unknown,
        sentence: "the trend of {subject} leads to a violation of the policy {policy}{figures}",
        help: "`tombolo timeline` shows what is done about it.",
    }
    PolicyViolated {
        on: "App, Node, Policy", blames: Unknown,
        sentence: "{subject} violates the policy {policy}{figures}",
        help: "`tombolo timeline` shows what is done about it.",
    }
    PolicyResolved {
        on: "App, Node", blames: Nobody,
        sentence: "{subject} keeps to the policy {policy} again, after {after} s",
        help: "",
    }
    PolicyUnknown {
        on: "Policy", blames: Unknown,
        sentence: "nothing that the policy looks at is measured{why}",
        help: "`tombolo query` with the expression in its status shows whether there are samples.",
    }
    PolicyInactive {
        on: "Policy", blames: User,
        sentence: "it is not watched: {why}",
        help: "Take `suspended` out of the policy; one that acts once is written anew.",
    }
    PolicyInvalid {
        on: "Policy", blames: User,
        sentence: "it cannot be watched: {why}",
        help: "`tombolo policy check` shows the place of the mistake.",
    }
    PolicyValid {
        on: "Policy", blames: Nobody,
        sentence: "it can be watched",
        help: "",
    }
    PolicyActed {
        on: "App, Node", blames: Nobody,
        sentence: "{action} of {subject}: {why}",
        help: "",
    }
    PolicySuggests {
        on: "App, Node", blames: User,
        sentence: "{action} of {subject} is suggested: {why}",
        help: "`tombolo suggestions` lists it; `tombolo accept {id}` has it done, `tombolo dismiss {id}` not.",
    }
    PolicyHelpless {
        on: "App, Node, Policy", blames: User,
        sentence: "the policy {policy} cannot be met for {subject}: {why}",
        help: "Give the component more places, or change what the policy asks for.",
    }
    PolicyAchievable {
        on: "Policy", blames: Nobody,
        sentence: "what it does helps, as far as is known",
        help: "",
    }
}
