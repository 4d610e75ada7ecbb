//! The names that a file defines: what a document may point to.

use super::{Token, body_or_end, closing};

/// Words that are followed by the name that they define.
const KEYWORDS: [&str; 9] =
    ["fn", "struct", "enum", "trait", "const", "static", "mod", "type", "union"];

/// Every defined name: items, methods, macros, fields and variants.
pub(crate) fn definitions<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let mut names = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let (keyword, name) = (pair[0].text, pair[1]);
        let pointer = at > 0 && tokens[at - 1].text == "*"; // `*const T` defines no T,
        let modifier = KEYWORDS.contains(&name.text); // and `const fn` no `fn`.
        if KEYWORDS.contains(&keyword) && name.is_word() && !pointer && !modifier {
            names.push(name.text);
            match keyword {
                "enum" => members(tokens, at, &mut names, |_| true),
                "struct" => names.extend(fields(tokens, at)),
                _ => {}
            }
        }
        if let [word, bang, name, ..] = &tokens[at..]
            && (word.text, bang.text) == ("macro_rules", "!")
        {
            names.push(name.text);
        }
    }
    names
}

/// The named fields of the struct whose keyword is at `at`.
pub(crate) fn fields<'a>(tokens: &[Token<'a>], at: usize) -> Vec<&'a str> {
    let mut names = Vec::new();
    members(tokens, at, &mut names, |next| next == ":");
    names
}

/// The members between the braces of the item at `at`: the first word after each comma, where
/// `is_member` accepts the token that follows it.
fn members<'a>(
    tokens: &[Token<'a>],
    at: usize,
    names: &mut Vec<&'a str>,
    is_member: impl Fn(&str) -> bool,
) {
    let Some(open) = body_or_end(tokens, at).filter(|&open| tokens[open].text == "{") else {
        return;
    };
    let end = closing(tokens, open);
    let mut expected = true;
    let mut at = open + 1;
    while at < end {
        let token = tokens[at];
        match token.text {
            "(" | "[" | "{" => at = closing(tokens, at),
            "," => expected = true,
            "#" | "pub" => {}
            _ => {
                if expected && token.is_word() && is_member(tokens[at + 1].text) {
                    names.push(token.text);
                }
                expected = false;
            }
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens;
    use super::*;

    #[test]
    fn items_methods_and_macros_are_definitions() {
        let code = "pub const fn a() {} mod b; static C: u8 = 1; trait D { type E; fn f(&self); } \
                    macro_rules! g { () => {} } unsafe impl X for Y {} let p: *const Z = q;";
        let expected = ["a", "b", "C", "D", "E", "f", "g"];
        assert_eq!(definitions(&tokens(code)), expected);
    }

    #[test]
    fn variants_and_fields_are_definitions_and_their_types_are_not() {
        let code = "enum A<T> where T: B { #[x] C, D(E, F), G { h: I }, J = 3 } \
                    struct K { pub(crate) l: M<N, O>, p: Q } struct R(S); struct T;";
        let expected = ["A", "C", "D", "G", "J", "K", "l", "p", "R", "T"];
        assert_eq!(definitions(&tokens(code)), expected);
    }
}
