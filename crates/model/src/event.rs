//! Events: what a loop, the gate or an agent tells people about an object. Whoever tells one makes it
//! with [`News::event`], and counts up with [`Memory`] what it has told before.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use crate::reason::Reason;

/// Objects without a namespace have their Events where Kubernetes puts such: here.
const NAMESPACE_OF_THE_REST: &str = "default";
/// A person reads this much; more may be a hostile text.
const MESSAGE_CHARS_MAX: usize = 1024;
/// Beyond, all are forgotten, and the same again is an Event of its own.
const REMEMBERED_MAX: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Normal,
    Warning,
}

/// What is told.
#[derive(Clone, Debug, PartialEq)]
pub struct News<'a> {
    /// Who tells it.
    pub component: &'a str,
    pub about: ObjectReference,
    pub tone: Tone,
    pub reason: Reason,
    pub message: &'a str,
}

/// What two Events have in common of which the second is the first once more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    about: String,
    reason: Reason,
    message: String,
}

/// An Event as it was written last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    pub name: String,
    pub count: i32,
}

/// The Events that were written, so that the same again is counted and is no Event of its own.
#[derive(Clone, Debug, Default)]
pub struct Memory(BTreeMap<Key, Once>);

impl News<'_> {
    /// In the namespace of what it is about.
    pub fn namespace(&self) -> &str {
        self.about.namespace.as_deref().unwrap_or(NAMESPACE_OF_THE_REST)
    }

    /// The object to be created.
    pub fn event(&self, now: Time) -> Event {
        let name = self.about.name.as_deref().unwrap_or_default();
        let generate_name = Some(format!("{name}."));
        let tone = match self.tone {
            Tone::Normal => "Normal",
            Tone::Warning => "Warning",
        };
        Event {
            metadata: ObjectMeta { generate_name, ..ObjectMeta::default() },
            involved_object: self.about.clone(),
            type_: Some(tone.to_owned()),
            reason: Some(self.reason.word().to_owned()),
            message: Some(self.text()),
            source: Some(EventSource { component: Some(self.component.to_owned()), host: None }),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            ..Event::default()
        }
    }

    /// A merge patch for an Event that says the same: once more, with what there is to say now.
    pub fn again(&self, count: i32, now: &Time) -> Value {
        json!({"count": count, "lastTimestamp": now, "message": self.text()})
    }

    /// The same only if it says the same words.
    pub fn key(&self) -> Key {
        Key { message: self.text(), ..self.key_of_reason() }
    }

    /// The same whatever words it says: a count or a time in them may have changed.
    pub fn key_of_reason(&self) -> Key {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let ObjectReference { uid, kind, namespace, name, .. } = &self.about;
        let about = [part(kind), part(namespace), part(name), part(uid)].join("/");
        Key { about, reason: self.reason, message: String::new() }
    }

    fn text(&self) -> String {
        self.message.chars().take(MESSAGE_CHARS_MAX).collect()
    }
}

impl Memory {
    /// The Event to count up, with its next count.
    pub fn next(&self, key: &Key) -> Option<Once> {
        let Once { name, count } = self.0.get(key)?;
        Some(Once { name: name.clone(), count: count.saturating_add(1) })
    }

    pub fn remember(&mut self, key: Key, once: Once) {
        if self.0.len() >= REMEMBERED_MAX {
            self.0.clear();
        }
        self.0.insert(key, once);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news<'a>(name: &str, message: &'a str) -> News<'a> {
        let about = ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() };
        let (tone, reason) = (Tone::Warning, Reason::CrashLoop);
        News { component: "test", about, tone, reason, message }
    }

    #[test]
    fn the_same_again_is_counted_by_its_words_or_by_its_reason_alone() {
        let mut memory = Memory::default();
        let once = Once { name: "a.1".to_owned(), count: 1 };
        memory.remember(news("a", "it failed").key(), once.clone());
        memory.remember(news("b", "it failed 3 times").key_of_reason(), once);
        let next = |key: &Key| memory.next(key).map(|once| once.count);
        assert_eq!(next(&news("a", "it failed").key()), Some(2));
        assert_eq!(next(&news("a", "it failed otherwise").key()), None);
        assert_eq!(next(&news("b", "it failed 4 times").key_of_reason()), Some(2));
        assert_eq!(next(&news("c", "it failed 4 times").key_of_reason()), None);
    }

    #[test]
    fn it_is_forgotten_before_it_grows_without_end() {
        let mut memory = Memory::default();
        for number in 0..=REMEMBERED_MAX {
            let once = Once { name: number.to_string(), count: 1 };
            memory.remember(news(&number.to_string(), "").key(), once);
        }
        assert_eq!(memory.0.len(), 1);
    }

    #[test]
    fn an_event_is_cut_and_lies_beside_what_it_is_about() {
        let long = "x".repeat(5000);
        let mut news = news("a", &long);
        let now = Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
        let event = news.event(now.clone());
        assert_eq!(event.message.map(|text| text.len()), Some(MESSAGE_CHARS_MAX));
        assert_eq!(event.metadata.generate_name.as_deref(), Some("a."));
        assert_eq!(news.again(7, &now)["count"], 7);
        assert_eq!(news.namespace(), "default");
        news.about.namespace = Some("shop".to_owned());
        assert_eq!(news.namespace(), "shop");
    }
}
