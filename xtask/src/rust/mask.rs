//! Blanking of comments and literals, so that a brace in a string is not a brace of the code.

/// What a part of a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Code,
    Comment,
    /// A string, byte or character literal.
    Literal,
}

/// `source` in its parts, each with its text, in order.
///
/// Lifetimes are code. An unfinished literal or comment runs to the end of the text.
pub(crate) fn parts(source: &str) -> impl Iterator<Item = (Part, &str)> {
    let mut rest = source;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let hidden = hidden_length(rest);
        // A word is taken whole: the `r` that ends `for` opens no raw string.
        let length = match first.is_alphanumeric() || first == '_' {
            _ if hidden > 0 => hidden,
            true => rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let part = match first {
            _ if hidden == 0 => Part::Code,
            '/' => Part::Comment,
            _ => Part::Literal,
        };
        let (text, after) = rest.split_at(length);
        rest = after;
        Some((part, text))
    })
}

/// `source` with every comment and every literal replaced by spaces.
///
/// Line breaks and byte offsets stay as they were.
pub(crate) fn mask(source: &str) -> String {
    let mut masked = String::with_capacity(source.len());
    for (part, text) in parts(source) {
        match part {
            Part::Code => masked.push_str(text),
            _ => masked.extend(text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' })),
        }
    }
    masked
}

/// Length in bytes of the comment or literal that `rest` begins with; 0 when it begins with code.
fn hidden_length(rest: &str) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment_length(rest);
    }
    let unprefixed = rest.trim_start_matches(['b', 'c']);
    let prefix = rest.len() - unprefixed.len();
    if prefix > 1 {
        return 0;
    }
    if let Some(raw) = unprefixed.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        return match raw[hashes..].starts_with('"') {
            true => prefix + 1 + raw_string_length(raw, hashes),
            false => 0,
        };
    }
    match unprefixed.as_bytes().first() {
        Some(b'"') => prefix + quoted_length(unprefixed, b'"'),
        Some(b'\'') if is_character(unprefixed) => prefix + quoted_length(unprefixed, b'\''),
        _ => 0,
    }
}

fn block_comment_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut depth, mut at) = (0usize, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// `raw` begins with `hashes` times `#`, then the opening quote.
fn raw_string_length(raw: &str, hashes: usize) -> usize {
    let closing = format!("\"{}", &raw[..hashes]);
    let inside = hashes + 1;
    match raw[inside..].find(&closing) {
        Some(end) => inside + end + closing.len(),
        None => raw.len(),
    }
}

fn quoted_length(rest: &str, quote: u8) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Whether the quote that `rest` begins with opens a character and not a lifetime.
fn is_character(rest: &str) -> bool {
    let mut inside = rest[1..].chars();
    match inside.next() {
        Some('\\') => true,
        Some(_) => inside.next() == Some('\''),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `#` in the second argument stands for a blanked byte, so that lengths are compared too.
    #[track_caller]
    fn masks_to(source: &str, expected: &str) {
        assert_eq!(mask(source), expected.replace('#', " "), "{source}");
    }

    #[test]
    fn comments_are_blanked_also_when_they_nest() {
        masks_to("a // {\nb", "a ####\nb");
        masks_to("a /* { /* } */ { */ b", "a ################# b");
        masks_to("a /* {\n { */ b", "a ####\n##### b");
        masks_to("a /* never closed", "a ###############");
    }

    #[test]
    fn strings_are_blanked_with_their_escapes() {
        masks_to(r#"f("a\"{", b"}", c"{");"#, "f(######, ####, ####);");
        masks_to(r#"f("\\"); {"#, "f(####); {");
        masks_to("f(\"// no comment\");", "f(###############);");
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes() {
        masks_to(r###"f(r#"a"{\"#);"###, "f(#########);");
        masks_to("f(r\"\\\");", "f(####);");
        masks_to(r###"f(br##"x"#"##);"###, "f(###########);");
    }

    #[test]
    fn a_character_is_blanked_and_a_lifetime_is_not() {
        masks_to("f('{', b'}', '\\'', '\\u{7b}', 'é');", "f(###, ####, ####, ########, ####);");
        masks_to(
            "fn f<'a>(x: &'a str) -> &'static str {}",
            "fn f<'a>(x: &'a str) -> &'static str {}",
        );
    }

    #[test]
    fn words_that_end_in_a_literal_prefix_stay_words() {
        masks_to("for\"x\"", "for###");
        assert_eq!(mask("r#type b c r"), "r#type b c r");
    }
}
