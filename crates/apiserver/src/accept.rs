//! Content negotiation: which representation of an answer the `Accept` header asks for.
//!
//! Every handler that answers with an object, a list or discovery calls [`negotiate`] with what it
//! can offer. The forms are those of the Kubernetes clients, for example
//! `application/json;as=Table;v=v1;g=meta.k8s.io,application/json`.

use std::fmt;

use tombolo_document::protobuf;

/// A form in which an answer can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Representation {
    Json,
    Yaml,
    /// Of the core kinds and of definitions alone: the messages of others have no numbers.
    Protobuf,
    /// Rows and columns, as `kubectl get` prints them.
    Table,
    /// The metadata of one object.
    PartialObject,
    /// The metadata of every object of a list.
    PartialObjectList,
    AggregatedDiscoveryV2,
    AggregatedDiscoveryV2Beta1,
}

/// For one object; in watches too.
pub const OF_AN_OBJECT: &[Representation] = &[
    Representation::Json,
    Representation::Yaml,
    Representation::Table,
    Representation::PartialObject,
];

pub const OF_A_LIST: &[Representation] = &[
    Representation::Json,
    Representation::Yaml,
    Representation::Table,
    Representation::PartialObjectList,
];

/// For a question that is answered and not kept.
pub const OF_A_REVIEW: &[Representation] = &[Representation::Json];

/// What the events of a watch carry; clients ask for it in the words of a list or of an object.
pub const OF_A_WATCH: &[Representation] = &[
    Representation::Json,
    Representation::Table,
    Representation::PartialObject,
    Representation::PartialObjectList,
];

/// For `/api` and `/apis`.
pub const OF_DISCOVERY: &[Representation] = &[
    Representation::Json,
    Representation::Yaml,
    Representation::AggregatedDiscoveryV2,
    Representation::AggregatedDiscoveryV2Beta1,
];

/// The header names nothing that the server can write at this address.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "none of the types in the Accept header {header:?} can be served here; these can: {offered}"
)]
pub struct NotAcceptable {
    header: String,
    offered: String,
}

/// Clients send a handful.
const TYPES_MAX: usize = 32;
/// More of a bad header than this helps nobody who reads the message.
const SHOWN_CHARS_MAX: usize = 200;

/// The form that the client likes best among `offers`, JSON when it does not say.
///
/// A media type that makes no sense is passed over, as one that is not offered: a client that
/// lists several wants us to take the one we know.
pub fn negotiate(
    header: Option<&str>,
    offers: &[Representation],
) -> Result<Representation, NotAcceptable> {
    let Some(header) = header.filter(|header| !header.trim().is_empty()) else {
        return Ok(Representation::Json);
    };
    let mut wanted: Vec<Range<'_>> =
        header.split(',').take(TYPES_MAX).filter_map(Range::parse).collect();
    // The sort is stable: between equals, the order of the header decides.
    wanted.sort_by_key(|range| (std::cmp::Reverse(range.quality_per_mille), range.is_wildcard()));
    wanted
        .iter()
        .filter(|range| range.quality_per_mille > 0)
        .filter_map(Range::representation)
        .find(|representation| offers.contains(representation))
        .ok_or_else(|| NotAcceptable::new(header, offers))
}

impl Representation {
    /// For the `Content-Type` header of the answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Representation::Yaml => "application/yaml",
            Representation::Protobuf => protobuf::MEDIA_TYPE,
            Representation::AggregatedDiscoveryV2 => {
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            Representation::AggregatedDiscoveryV2Beta1 => {
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
            }
            Representation::Json
            | Representation::Table
            | Representation::PartialObject
            | Representation::PartialObjectList => "application/json",
        }
    }
}

impl fmt::Display for Representation {
    /// As a client would ask for it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Representation::Table => "application/json;as=Table;v=v1;g=meta.k8s.io",
            Representation::PartialObject => {
                "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
            }
            Representation::PartialObjectList => {
                "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
            }
            Representation::Json
            | Representation::Yaml
            | Representation::Protobuf
            | Representation::AggregatedDiscoveryV2
            | Representation::AggregatedDiscoveryV2Beta1 => self.content_type(),
        })
    }
}

impl NotAcceptable {
    fn new(header: &str, offers: &[Representation]) -> NotAcceptable {
        let offered: Vec<String> = offers.iter().map(ToString::to_string).collect();
        NotAcceptable {
            header: header.chars().take(SHOWN_CHARS_MAX).collect(),
            offered: offered.join(", "),
        }
    }
}

/// One entry of the header.
struct Range<'a> {
    media_type: String,
    /// `as`, `g` and `v`: which transformation is asked for; empty when none is.
    kind: &'a str,
    group: &'a str,
    version: &'a str,
    quality_per_mille: u16,
}

impl<'a> Range<'a> {
    fn parse(entry: &'a str) -> Option<Range<'a>> {
        let mut parts = entry.split(';').map(str::trim);
        let media_type = parts.next()?.to_ascii_lowercase();
        let mut range =
            Range { media_type, kind: "", group: "", version: "", quality_per_mille: 1000 };
        for parameter in parts {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                "as" => range.kind = value,
                "g" => range.group = value,
                "v" => range.version = value,
                "q" => range.quality_per_mille = quality_per_mille(value)?,
                // charset, stream, pretty: they change nothing in what we write.
                _ => (),
            }
        }
        Some(range)
    }

    fn is_wildcard(&self) -> bool {
        self.media_type.ends_with("/*")
    }

    fn representation(&self) -> Option<Representation> {
        let plain = match self.media_type.as_str() {
            "application/json" | "application/*" | "*/*" => Representation::Json,
            "application/yaml" => Representation::Yaml,
            protobuf::MEDIA_TYPE => Representation::Protobuf,
            _ => return None,
        };
        match (plain, self.kind, self.group, self.version) {
            (plain, "", _, _) => Some(plain),
            (Representation::Json, "Table", "meta.k8s.io", "v1") => Some(Representation::Table),
            (Representation::Json, "PartialObjectMetadata", "meta.k8s.io", "v1") => {
                Some(Representation::PartialObject)
            }
            (Representation::Json, "PartialObjectMetadataList", "meta.k8s.io", "v1") => {
                Some(Representation::PartialObjectList)
            }
            (Representation::Json, "APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => {
                Some(Representation::AggregatedDiscoveryV2)
            }
            (Representation::Json, "APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => {
                Some(Representation::AggregatedDiscoveryV2Beta1)
            }
            _ => None,
        }
    }
}

/// `0.85` is 850; `None` when it is not a number from 0 to 1.
fn quality_per_mille(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: u16 = format!("{fraction:0<3}").parse().ok()?;
    match (whole, fraction) {
        ("0", fraction) => Some(fraction),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(header: &str, offers: &[Representation], expect: Expect) {
        expect.assert_eq(&match negotiate(Some(header), offers) {
            Ok(representation) => format!("{representation:?}"),
            Err(error) => error.to_string(),
        });
    }

    #[test]
    fn gives_kubectl_get_a_table_and_json_where_there_is_none() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        check(kubectl, OF_A_LIST, expect!["Table"]);
        check(kubectl, OF_AN_OBJECT, expect!["Table"]);
        check(kubectl, OF_DISCOVERY, expect!["Json"]);
    }

    #[test]
    fn gives_client_go_json_when_it_likes_protobuf_better() {
        check("application/vnd.kubernetes.protobuf,application/json", OF_A_LIST, expect!["Json"]);
        check(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            OF_A_LIST,
            expect!["PartialObjectList"],
        );
        check(
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            OF_AN_OBJECT,
            expect!["PartialObject"],
        );
        check("application/json;stream=watch", OF_AN_OBJECT, expect!["Json"]);
    }

    #[test]
    fn gives_the_newest_aggregated_discovery_that_is_asked_for() {
        let client_go = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        check(client_go, OF_DISCOVERY, expect!["AggregatedDiscoveryV2"]);
        check(
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
            OF_DISCOVERY,
            expect!["AggregatedDiscoveryV2Beta1"],
        );
    }

    #[test]
    fn weighs_by_quality_and_puts_wildcards_last() {
        check("application/json;q=0.5,application/yaml", OF_AN_OBJECT, expect!["Yaml"]);
        check("*/*, application/yaml", OF_AN_OBJECT, expect!["Yaml"]);
        check(
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            OF_AN_OBJECT,
            expect!["Json"],
        );
        check("Application/YAML ; Q=1.0", OF_AN_OBJECT, expect!["Yaml"]);
        check("application/*", OF_AN_OBJECT, expect!["Json"]);
    }

    #[test]
    fn takes_json_when_nothing_is_asked_for() {
        assert_eq!(negotiate(None, OF_A_LIST), Ok(Representation::Json));
        assert_eq!(negotiate(Some("  "), OF_A_LIST), Ok(Representation::Json));
    }

    #[test]
    fn says_what_can_be_served_when_nothing_fits() {
        check(
            "application/vnd.kubernetes.protobuf",
            OF_DISCOVERY,
            expect![[
                r#"none of the types in the Accept header "application/vnd.kubernetes.protobuf" can be served here; these can: application/json, application/yaml, application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList, application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"#
            ]],
        );
        check(
            "application/json;q=0",
            OF_A_LIST,
            expect![[
                r#"none of the types in the Accept header "application/json;q=0" can be served here; these can: application/json, application/yaml, application/json;as=Table;v=v1;g=meta.k8s.io, application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"#
            ]],
        );
        check(
            "application/json;as=Chart;g=meta.k8s.io;v=v1",
            OF_AN_OBJECT,
            expect![[
                r#"none of the types in the Accept header "application/json;as=Chart;g=meta.k8s.io;v=v1" can be served here; these can: application/json, application/yaml, application/json;as=Table;v=v1;g=meta.k8s.io, application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"#
            ]],
        );
    }

    proptest! {
        #[test]
        fn never_panics_on_any_header(header in ".{0,80}", near in "[a-z/*;=,q0.1 \"]{0,40}") {
            let _ = negotiate(Some(&header), OF_A_LIST);
            let _ = negotiate(Some(&near), OF_A_LIST);
        }
    }
}
