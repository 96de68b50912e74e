//! The camera: takes pictures of the belt and sends them to the detector.

use std::time::Duration;

use serde_json::json;

use super::peer::Peer;
use super::{Place, belt, say};

/// Between two frames.
const EVERY: Duration = Duration::from_millis(200);
/// A line in the log for so many frames.
const TELL_EVERY: u64 = 50;

pub(super) fn run() -> Result<(), String> {
    let mut detector = Peer::of("detector");
    let place = Place::own();
    for number in 0.. {
        // A line that says where it comes from, then the pixels.
        let mut body = json!({"number": number, "camera": place}).to_string().into_bytes();
        body.push(b'\n');
        body.extend(belt::frame(number));
        let sent = detector.ask("POST", "/frame", &body)?.is_some();
        if number % TELL_EVERY == 0 {
            let how = if sent { "sent to the detector" } else { "lost: no detector answers" };
            say(&format!("frame {number} {how}"));
        }
        std::thread::sleep(EVERY);
    }
    Ok(())
}
