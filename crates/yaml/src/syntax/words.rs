//! What each mistake that the parser knows is in words for people: what is wrong, and what was
//! expected. The parser's own words are never shown; its feature that has them is not even built.

use granit_parser::ErrorKind as Kind;

const TAG: (&str, &str) = (
    "a word with \"!\" before it is a tag, and this one is not well formed",
    "\"!name\" with a blank behind it; a text that begins with \"!\" goes in quotes",
);
const DIRECTIVE: (&str, &str) = (
    "a line that begins with \"%\" is for the reader of YAML, and this one says nothing it knows",
    "\"%YAML 1.2\" or no such line; a text that begins with \"%\" goes in quotes",
);
const ESCAPE: (&str, &str) = (
    "this escape means nothing in double quotes",
    "\"\\\\\" for a backslash, or the text in single quotes",
);
const NO_CHARACTER: (&str, &str) = ("this escape names no character", "the character itself");

/// What is wrong, and what was expected.
#[expect(clippy::too_many_lines, reason = "one thought: a row for each mistake")]
pub(super) fn of(kind: &Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::UnclosedQuotedScalar => ("a quoted text does not end", "the closing quote"),
        Kind::InvalidQuotedScalarIndent => {
            ("the quoted text that began above goes on here", "the closing quote before this line")
        }
        Kind::DocumentIndicatorInQuotedScalar => (
            "a quoted text does not end before this line begins a document",
            "the closing quote before this line",
        ),
        Kind::InvalidTrailingSingleQuotedScalar => (
            "the text in single quotes has ended before this",
            "nothing more behind it, or \",\" within brackets; a single quote within the text is \
             written twice",
        ),
        Kind::InvalidTrailingDoubleQuotedScalar => (
            "the text in double quotes has ended before this",
            "nothing more behind it, or \",\" within brackets; a double quote within the text has a \
             backslash before it",
        ),
        Kind::UnknownQuotedScalarEscape | Kind::InvalidQuotedScalarHexEscape => ESCAPE,
        Kind::InvalidLowSurrogateHexEscape
        | Kind::InvalidLowSurrogate
        | Kind::MissingLowSurrogate
        | Kind::UnpairedLowSurrogate
        | Kind::InvalidUnicodeEscape => NO_CHARACTER,

        Kind::UnclosedFlowCollection { open: '[' } => ("a list in brackets does not end", "\"]\""),
        Kind::UnclosedFlowCollection { .. } => ("a mapping in braces does not end", "\"}\""),
        Kind::ExpectedFlowSequenceSeparator => {
            ("the entries of a list in brackets are not separated", "\",\" or \"]\"")
        }
        Kind::ExpectedFlowMappingSeparator => {
            ("the entries of a mapping in braces are not separated", "\",\" or \"}\"")
        }
        Kind::MismatchedFlowCollectionEnd { .. } | Kind::MisplacedFlowCollectionEnd => {
            ("this bracket closes nothing that is open", "the bracket that was opened last")
        }
        Kind::BlockEntryInFlowCollection => {
            ("a list entry with \"-\" stands within brackets", "entries separated by \",\"")
        }
        Kind::PlainScalarStartsWithDashFlowIndicator => {
            ("\"-\" stands alone within brackets", "a value, or \"-\" in quotes")
        }
        Kind::FlowMappingValueAdjacentCollection => {
            ("a blank is missing after \":\"", "\"key: value\"")
        }
        Kind::InvalidFlowScalarIndent => (
            "this line belongs to brackets that are open above, and stands too far left",
            "the closing bracket above, or this line indented deeper than its key",
        ),

        Kind::SimpleKeyExpected | Kind::InvalidSimpleKey => {
            ("this line is neither a key with its value nor a list entry", "\"key: value\"")
        }
        Kind::ExpectedBlockMappingKey | Kind::InvalidIndentation => (
            "the indentation of this line fits nothing above it",
            "the same indentation as the keys that it belongs with",
        ),
        Kind::MappingKeyNotAllowed => {
            ("a text that begins with \"? \" cannot stand here", "the text in quotes")
        }
        Kind::ExpectedBlockSequenceEntry => (
            "this line stands where the next entry of a list would",
            "\"- \" at its beginning, or the indentation of what it belongs to",
        ),
        Kind::BlockSequenceEntryNotAllowed => (
            "a list entry cannot stand here",
            "the entries on lines of their own, all indented alike; a text that begins with \
             \"- \" goes in quotes",
        ),
        Kind::MappingValueNotAllowed | Kind::InvalidColonPlacement => {
            ("a mapping cannot begin here", "one value; a text with \": \" in it goes in quotes")
        }
        // The parser speaks of the end of the text wherever it finds no value.
        Kind::ExpectedNodeContent
        | Kind::UnexpectedEndOfPlainScalar
        | Kind::UnexpectedEof
        | Kind::UnexpectedEofBlockMapping
        | Kind::UnexpectedEofBlockSequence
        | Kind::UnexpectedEofFlowMapping
        | Kind::UnexpectedEofFlowSequence
        | Kind::UnexpectedEofImplicitFlowMapping => ("a value is missing here", "a value"),
        Kind::ExpectedWhitespace => ("a blank is missing here", "a blank"),

        Kind::CommentNotSeparated => {
            ("\"#\" stands right behind a value", "a blank before a comment")
        }
        Kind::CommentInterceptedScalar => (
            "a comment stands within a text of several lines",
            "the comment before or behind the whole text, or the text in quotes",
        ),
        Kind::ZeroBlockScalarIndent | Kind::InvalidBlockScalarHeader => (
            "behind \"|\" or \">\" the line has to end",
            "the text from the next line on; a text that begins with \"|\" or \">\" goes in quotes",
        ),
        Kind::InvalidBlockScalarIndent => (
            "this line belongs to a block of text and stands too far left",
            "the lines of the block all indented at least as deep as its first",
        ),

        Kind::MissingAnchorOrAliasName => (
            "a name is missing behind \"&\" or \"*\"",
            "the name of an anchor; a text that begins with \"&\" or \"*\" goes in quotes",
        ),
        Kind::AnchorCountOverflow => ("there are too many anchors", "fewer"),
        Kind::UndeclaredTagHandle
        | Kind::ExpectedTagBang
        | Kind::InvalidGlobalTagCharacter
        | Kind::InvalidTagTerminator
        | Kind::MissingTagUri
        | Kind::UnclosedVerbatimTag
        | Kind::InvalidTagEscape
        | Kind::InvalidTagUtf8LeadingByte
        | Kind::InvalidTagUtf8TrailingByte
        | Kind::InvalidTagUtf8 => TAG,

        Kind::DuplicateVersionDirective | Kind::DuplicateTagDirective => {
            ("this line with \"%\" is there twice", "each once before \"---\"")
        }
        Kind::UnsupportedYamlMajorVersion => {
            ("this version of YAML is not known here", "\"%YAML 1.2\" or no such line")
        }
        Kind::InvalidDirectiveTerminator
        | Kind::DirectiveDisallowed
        | Kind::MissingYamlVersionSeparator
        | Kind::MissingDirectiveName
        | Kind::InvalidDirectiveName
        | Kind::DirectiveByteLimitExceeded { .. }
        | Kind::TooManyReservedDirectiveParams { .. }
        | Kind::YamlVersionTooLong
        | Kind::MissingYamlVersion
        | Kind::ExpectedTagDirectiveBang
        | Kind::InvalidTagDirectiveTerminator => DIRECTIVE,
        Kind::MissingDocumentEndBeforeDirective => (
            "a line that begins with \"%\" cannot stand within a document",
            "\"...\" on the line before; a text that begins with \"%\" goes in quotes",
        ),
        Kind::ExpectedStreamStart | Kind::ExpectedDocumentStart => (
            "the document above has ended, and none begins here",
            "\"---\" on the line before a document",
        ),
        Kind::InvalidDocumentEnd => {
            ("something stands behind \"...\", which ends a document", "nothing more on that line")
        }
        Kind::BomInsideDocument => ("a byte order mark stands in the text", "no such mark"),
        // Those of other ways to read than from a text, and those of parsers to come.
        _ => ("this cannot be read as YAML", "YAML 1.2"),
    }
}
