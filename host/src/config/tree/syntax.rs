//! What a YAML syntax error is called. The words are ours, so that none repeats what the file holds, and
//! they name what an operator can see rather than a state of the parser.

use granit_parser::ErrorKind;

use super::MAX_DEPTH;

pub(super) const OTHER: &str = "is not valid YAML here";

pub(super) fn too_deep() -> String {
    format!("is nested deeper than {MAX_DEPTH} levels")
}

pub(super) fn text(kind: &ErrorKind) -> String {
    use ErrorKind as E;
    let text = match kind {
        E::RecursionLimitExceeded => return too_deep(),
        E::TabNotAllowed
        | E::TabInBlockIndentation
        | E::TabInIndentation
        | E::TabAtBlockScalarStart
        | E::TabInPlainScalar => "a tab stands where YAML wants spaces",
        E::UnclosedQuotedScalar | E::DocumentIndicatorInQuotedScalar => "a quoted text is not closed",
        E::InvalidTrailingSingleQuotedScalar | E::InvalidTrailingDoubleQuotedScalar => {
            "something follows a quoted text on its line"
        }
        E::UnknownQuotedScalarEscape
        | E::InvalidQuotedScalarHexEscape
        | E::InvalidLowSurrogateHexEscape
        | E::InvalidLowSurrogate
        | E::MissingLowSurrogate
        | E::UnpairedLowSurrogate
        | E::InvalidUnicodeEscape => "an escape in a double-quoted text is not valid",
        E::UnclosedFlowCollection { .. }
        | E::UnexpectedEofFlowSequence
        | E::UnexpectedEofFlowMapping
        | E::UnexpectedEofImplicitFlowMapping => "a \"[\" or \"{\" is not closed",
        E::MisplacedFlowCollectionEnd | E::MismatchedFlowCollectionEnd { .. } => {
            "a \"]\" or \"}\" closes nothing of its kind"
        }
        E::ExpectedFlowMappingSeparator => "expected \",\" or \"}\"",
        E::ExpectedFlowSequenceSeparator => "expected \",\" or \"]\"",
        E::InvalidIndentation
        | E::InvalidBlockScalarIndent
        | E::InvalidQuotedScalarIndent
        | E::InvalidFlowScalarIndent
        | E::ZeroBlockScalarIndent => "the indentation does not fit",
        E::ExpectedBlockMappingKey | E::SimpleKeyExpected | E::InvalidSimpleKey => {
            "expected \"key: value\"; a \":\" is missing or the indentation does not fit"
        }
        E::ExpectedBlockSequenceEntry
        | E::BlockSequenceEntryNotAllowed
        | E::BlockEntryInFlowCollection
        | E::InvalidBlockEntryWhitespace => {
            "a list item (\"- …\") is not possible here, or its indentation does not fit"
        }
        E::MappingKeyNotAllowed
        | E::MappingValueNotAllowed
        | E::InvalidMappingValueWhitespace
        | E::InvalidColonPlacement
        | E::FlowMappingValueAdjacentCollection => {
            "a \":\" is not possible here; quote a text that holds \": \""
        }
        E::UnknownAnchor => "an alias (\"*…\") names no anchor; quote a text that starts with \"*\"",
        E::MissingAnchorOrAliasName => "a \"&\" or \"*\" needs a name; quote a text that starts with it",
        E::UnexpectedCharacter { .. } | E::PlainScalarStartsWithDashFlowIndicator => {
            "a value cannot start with this character; quote it"
        }
        E::DirectiveDisallowed => "directives (\"%…\") are not supported",
        E::BomInsideDocument => "a byte-order mark stands inside the file",
        E::CommentNotSeparated => "a comment needs a space before \"#\"",
        E::CommentInterceptedScalar => "a comment stands inside a text of several lines",
        E::UndeclaredTagHandle
        | E::InvalidTagTerminator
        | E::MissingTagUri
        | E::UnclosedVerbatimTag
        | E::InvalidTagEscape => "tags (\"!…\") are not supported; quote a text that starts with \"!\"",
        _ => OTHER,
    };
    text.to_owned()
}
