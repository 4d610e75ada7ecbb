//! Enough of Rust's lexical structure to judge a file without compiling it.
//!
//! [`mask`] blanks comments and literals, [`Token`]s come from what is left, and the submodules
//! find functions, paths, definitions and test-only code in the tokens. Macros are seen as they
//! are written, not as they expand.

pub(crate) mod definitions;
pub(crate) mod functions;
pub(crate) mod mask;
pub(crate) mod paths;
pub(crate) mod test_only;

/// A word, a number, a lifetime, `::`, or one character of punctuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// As written; a lifetime keeps its quote, a raw identifier loses its `r#`.
    pub(crate) text: &'a str,
    /// Line it begins on, from 1.
    pub(crate) line: usize,
}

impl Token<'_> {
    /// Whether it is an identifier or a keyword.
    pub(crate) fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// The tokens of masked code (see [`mask::mask`]).
pub(crate) fn tokens(masked: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut at = 0;
    while let Some(first) = masked[at..].chars().next() {
        let rest = &masked[at..];
        let length = if is_word_part(first) {
            word_length(rest)
        } else if first == '\'' {
            1 + word_length(&rest[1..])
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let text = &rest[..length];
        if first == '\n' {
            line += 1;
        } else if text == "r" && rest[length..].starts_with('#') {
            at += 1; // Of `r#type` only the word counts.
        } else if !first.is_whitespace() {
            tokens.push(Token { text, line });
        }
        at += length;
    }
    tokens
}

/// Index of the token that closes the bracket at `open`, or the last one when none does.
pub(crate) fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    tokens.len().saturating_sub(1)
}

/// From `start`, index of the first `;` or `{` that is outside round and square brackets.
pub(crate) fn body_or_end(tokens: &[Token<'_>], start: usize) -> Option<usize> {
    let mut at = start;
    while at < tokens.len() {
        match tokens[at].text {
            "(" | "[" => at = closing(tokens, at),
            "{" | ";" => return Some(at),
            "}" => return None,
            _ => {}
        }
        at += 1;
    }
    None
}

fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word_length(text: &str) -> usize {
    text.find(|c| !is_word_part(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(code: &str) -> Vec<&str> {
        tokens(code).iter().map(|token| token.text).collect()
    }

    #[test]
    fn tokens_are_words_lifetimes_path_separators_and_single_characters() {
        assert_eq!(
            texts("fn a<'b>(x: &'b u8)"),
            ["fn", "a", "<", "'b", ">", "(", "x", ":", "&", "'b", "u8", ")"]
        );
        assert_eq!(
            texts("std::fs::read(0x1f)"),
            ["std", "::", "fs", "::", "read", "(", "0x1f", ")"]
        );
        assert_eq!(texts("r#type + r"), ["type", "+", "r"]);
    }

    #[test]
    fn tokens_carry_their_line() {
        let lines: Vec<usize> = tokens("a\n\n  b c\nd").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 3, 3, 4]);
    }

    #[test]
    fn a_bracket_closes_at_its_own_pair() {
        let code = tokens("( { [ ] } ) ;");
        assert_eq!(closing(&code, 0), 5);
        assert_eq!(closing(&code, 1), 4);
        assert_eq!(closing(&tokens("( a"), 0), 1);
    }
}
