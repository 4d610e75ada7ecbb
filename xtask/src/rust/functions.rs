//! Where functions begin and end.

use super::{Token, body_or_end, closing};

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name, without the type or module that it belongs to.
    pub(crate) name: String,
    /// Line of its `fn`.
    pub(crate) line: usize,
    /// Lines from its `fn` to its closing brace, both included.
    pub(crate) lines: usize,
}

/// Every function with a body, nested ones too (they also count for the function around them).
pub(crate) fn functions(tokens: &[Token<'_>]) -> Vec<Function> {
    let starts = tokens.windows(2).enumerate().filter(|(_, pair)| {
        pair[0].text == "fn" && pair[1].is_word() // `fn(u8)` is a type.
    });
    starts.filter_map(|(at, _)| function(tokens, at)).collect()
}

fn function(tokens: &[Token<'_>], at: usize) -> Option<Function> {
    let open = body_or_end(tokens, at).filter(|&end| tokens[end].text == "{")?;
    let line = tokens[at].line;
    let last = tokens[closing(tokens, open)].line;
    Some(Function { name: tokens[at + 1].text.to_string(), line, lines: last - line + 1 })
}

#[cfg(test)]
mod tests {
    use super::super::{mask::mask, tokens};
    use super::*;

    fn found(source: &str) -> Vec<(String, usize, usize)> {
        let masked = mask(source);
        let found = functions(&tokens(&masked));
        found.into_iter().map(|function| (function.name, function.line, function.lines)).collect()
    }

    #[test]
    fn a_function_reaches_from_its_fn_to_its_brace() {
        let source =
            "/// Doc.\n#[inline]\npub fn one(\n    x: u8,\n) -> u8 {\n    x\n}\nfn two() {}\n";
        assert_eq!(found(source), [("one".into(), 3, 5), ("two".into(), 8, 1)]);
    }

    #[test]
    fn braces_in_literals_and_comments_do_not_count() {
        let source = "fn a() {\n  f(\"}\"); // }\n  g('}', r#\"\"}\"#) /* } */\n}\nfn b() {\n}\n";
        assert_eq!(found(source), [("a".into(), 1, 4), ("b".into(), 5, 2)]);
    }

    #[test]
    fn a_function_without_a_body_and_a_function_type_are_no_functions() {
        let source = "trait T {\n  fn a(&self) -> [u8; { 3 }];\n  fn b(&self) {\n  }\n}\n\
                      type F = fn(u8) -> u8;";
        assert_eq!(found(source), [("b".into(), 3, 2)]);
    }

    #[test]
    fn nested_functions_are_found_and_counted_in_the_outer_one() {
        let source = "fn outer() {\n  fn inner() {\n  }\n}";
        assert_eq!(found(source), [("outer".into(), 1, 4), ("inner".into(), 2, 2)]);
    }
}
