//! For whom the gate writes, and what they did. The gate writes with the rights of the system; a
//! header of the request says whose deed it was, and the embedded API puts that into its audit
//! record. Another API server passes over the header: it has a record of its own.

use http::HeaderValue;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use tombolo_identity::Subject;

/// Only a request of the system itself may carry it.
pub const HEADER: &str = "tombolo-record";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub user: String,
    pub role: String,
    pub verb: String,
    /// A sentence for people who read the record; empty if the verb says it all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// What it was done to, if that is not the object that is written.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
}

impl Record {
    pub fn new(subject: &Subject, verb: &str) -> Record {
        Record {
            user: subject.name.clone(),
            role: subject.role.to_string(),
            verb: verb.to_owned(),
            what: String::new(),
            object: String::new(),
        }
    }

    pub(crate) fn to_header(&self) -> Option<HeaderValue> {
        let text = serde_json::to_string(self).ok()?;
        let text = utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string();
        HeaderValue::from_str(&text).ok()
    }

    /// Reads back what the gate wrote.
    pub fn from_header(value: &HeaderValue) -> Option<Record> {
        let text = percent_decode_str(value.to_str().ok()?).decode_utf8().ok()?;
        serde_json::from_str(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_out_as_it_went_in() {
        let mut record = Record::new(&Subject::first_admin(), "exec");
        record.what = "läuft: echo \"a\"\r\nX: y %41".to_owned();
        let header = record.to_header().unwrap();
        assert_eq!(Record::from_header(&header), Some(record));
        assert_eq!(Record::from_header(&HeaderValue::from_static("nonsense")), None);
    }
}
