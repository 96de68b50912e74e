//! The table of reasons: its words stay, its sentences are well formed, and its page shows it.

use std::collections::BTreeSet;

use expect_test::expect_file;

use super::*;

/// Words that programs out there may read. A word is added here together with its row, and none is
/// ever taken away or spelled anew.
const WORDS: &str = "
    Abandoned AgentFailed AllKnown AsDeclared BackedUp BetterPlaces CanWrite CannotConfine
    CannotWrite CheckFails Checking Cloned CommandNotFound CommandNotInImage Completed Confined
    ConfinedInPart ConnectionRefused CrashLoop CutOff Degraded DelaysBelieved DelaysDoubted
    Deployed Deploying DiskFull Ended EngineUnreachable Error Exec Exhausted Failed Forgotten
    Heartbeat HeartbeatLost ImageDenied ImageOutOfReach Invalid JobDegraded Joined JoinedAgain
    JoinedAnew Killed LinkSilent LoopDied LoopLate LoopOnTime LoopsOnTime Lost Moved NeverHeard
    NoNodeReady NoSuchEntry NoSuchFolder NoSuchImage NoSuchInstance NoSuchPort NoSuchUser
    NodeNotReady NodeReady NodeSilent NodeUnreachable NodesReady NotAllowed NotAsDeclared
    NotExecutable NotPermitted NotRunning OutOfMemory PlaceNotFound Placed Placing PolicyAchievable
    PolicyActed PolicyHelpless PolicyHolds PolicyInactive PolicyInvalid PolicyPending
    PolicyPredicted PolicyResolved PolicySuggests PolicyUnknown PolicyValid PolicyViolated
    PortForward PortTaken ProbesAnswered ProbesLost Quarantined Rebooted Reinstalled Released
    Replaced Restarted Restarting Restored Returned RolledBack Running SaidDown SiteNotReady
    SiteReady Started Starting Stopped TimedOut Told Translated TriedAgain TwoInstances Undeploying
    Unhealthy Unplaceable Unsupported Updating Waiting
";

#[test]
fn a_word_that_was_ever_there_stays() {
    let known: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.word()).collect();
    let promised: BTreeSet<&str> = WORDS.split_whitespace().collect();
    assert_eq!(known, promised);
}

#[test]
fn a_word_is_read_as_it_was_written() {
    for reason in Reason::ALL {
        assert_eq!(Reason::of(reason.word()), Some(*reason));
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.word());
    }
    assert_eq!(Reason::of("portTaken"), None);
    assert_eq!(Reason::of(""), None);
}

#[test]
fn a_sentence_is_a_clause_and_help_is_a_sentence() {
    for reason in Reason::ALL {
        let (sentence, help) = (reason.sentence(), reason.help());
        assert!(!sentence.is_empty() && !sentence.ends_with('.'), "{reason}: {sentence}");
        assert!(!sentence.starts_with(char::is_uppercase), "{reason}: {sentence}");
        let begins = help.starts_with(|first: char| first.is_uppercase() || first == '`');
        match reason.blames() {
            Blame::Nobody => assert_eq!(help, "", "{reason}"),
            _ => assert!(begins && help.ends_with('.'), "{reason}: {help}"),
        }
    }
}

#[test]
fn blanks_are_filled_and_what_fills_them_is_left_alone() {
    let blanks = [("port", "{by}"), ("protocol", "tcp"), ("by", " by x")];
    let said = Reason::PortTaken.says(&blanks.map(|(blank, value)| (blank, value.to_owned())));
    assert_eq!(said, "tcp port {by} of the node is taken by x");
}

const PAGE: &str = "\
# Reasons

Conditions, Events and answers have a word in their `reason`; those of Apps, Assignments, Nodes and Sites are these.
The words are for programs: none of them is ever changed or taken away. The sentences are for people and may change;
what stands in `{braces}` is filled in. \"Blames\" says who or what has to change before it gets better. A component
whose trouble is blamed on a node, an engine, the network, or on either the component or its node, is tried elsewhere.

The table in `crates/model/src/reason/table.rs` is the original; a test writes this page from it.

| word | on | blames | sentence | what to do |
|---|---|---|---|---|
";

/// The page that people and programs look words up in.
#[test]
fn the_page_of_reasons_shows_the_table() {
    let mut page = String::from(PAGE);
    for reason in Reason::ALL {
        let blames = format!("{:?}", reason.blames()).to_lowercase();
        let (word, on) = (reason.word(), reason.on());
        let (sentence, help) = (reason.sentence(), reason.help());
        page.push_str(&format!("| `{word}` | {on} | {blames} | {sentence} | {help} |\n"));
    }
    expect_file!["../../../../docs/reasons.md"].assert_eq(&page);
}
