//! A value as it was written, before anything is known about its key.

use std::fmt;

use super::expand::{Environment, expand};

/// Most characters of a wrong value that an error repeats.
const SHOWN_CHARS_MAX: usize = 60;

/// A value as it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Raw {
    /// A string; every value of the command line is one.
    Text(String),
    /// An integer or float, in decimal text.
    Number(String),
    /// `true` or `false`.
    Switch(bool),
    /// An array.
    List(Vec<Raw>),
    /// A table used as a value, by key.
    Map(Vec<(String, Raw)>),
    /// A date or time, which no setting takes.
    Date(String),
}

impl Raw {
    /// The same value with environment variables put into its strings.
    ///
    /// # Errors
    /// A variable that is not set and has no default, or `${` that names none.
    pub fn expanded(&self, environment: Environment<'_>) -> Result<Raw, String> {
        Ok(match self {
            Raw::Text(text) => Raw::Text(expand(text, environment)?),
            Raw::List(items) => Raw::List(
                items.iter().map(|item| item.expanded(environment)).collect::<Result<_, _>>()?,
            ),
            Raw::Map(entries) => Raw::Map(
                entries
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), value.expanded(environment)?)))
                    .collect::<Result<_, String>>()?,
            ),
            other => other.clone(),
        })
    }

    /// The text of a string.
    pub fn text(&self) -> Option<&str> {
        match self {
            Raw::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text of a number, which may also stand in a string: a variable can only be put there.
    pub fn number(&self) -> Option<&str> {
        match self {
            Raw::Text(text) | Raw::Number(text) => Some(text),
            _ => None,
        }
    }

    /// The parts of a list, which may also be one string with commas, or a single value.
    pub fn items(&self) -> Vec<Raw> {
        match self {
            Raw::List(items) => items.clone(),
            Raw::Text(text) if text.trim().is_empty() => Vec::new(),
            Raw::Text(text) => {
                text.split(',').map(|part| Raw::Text(part.trim().to_owned())).collect()
            }
            other => vec![other.clone()],
        }
    }
}

impl fmt::Display for Raw {
    /// In one line and without control characters, cut when long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raw::Text(text) => {
                let mut letters = text.chars();
                let shown: String = letters.by_ref().take(SHOWN_CHARS_MAX).collect();
                let dots = if letters.next().is_some() { "..." } else { "" };
                write!(f, "{shown:?}{dots}")
            }
            Raw::Number(text) | Raw::Date(text) => {
                f.write_str(&text.chars().take(SHOWN_CHARS_MAX).collect::<String>())
            }
            Raw::Switch(on) => write!(f, "{on}"),
            Raw::List(items) if items.is_empty() => f.write_str("an empty list"),
            Raw::List(_) => f.write_str("a list"),
            Raw::Map(_) => f.write_str("a table"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Raw {
        Raw::Text(text.to_owned())
    }

    #[test]
    fn an_error_repeats_a_value_in_one_short_line() {
        for (raw, shown) in [
            (text("banana"), "\"banana\""),
            (text("a\nb\u{1b}"), "\"a\\nb\\u{1b}\""),
            (Raw::Number("-5".into()), "-5"),
            (Raw::Switch(true), "true"),
            (Raw::List(vec![]), "an empty list"),
            (Raw::List(vec![text("a")]), "a list"),
            (Raw::Map(vec![]), "a table"),
            (Raw::Date("1979-05-27".into()), "1979-05-27"),
        ] {
            assert_eq!(raw.to_string(), shown);
        }
        assert_eq!(text(&"é".repeat(10_000)).to_string().chars().count(), SHOWN_CHARS_MAX + 5);
    }

    #[test]
    fn a_list_may_be_written_with_commas() {
        assert_eq!(text("a, b,c").items(), [text("a"), text("b"), text("c")]);
        assert_eq!(text(" ").items(), []);
        assert_eq!(Raw::Number("80".into()).items(), [Raw::Number("80".into())]);
        assert_eq!(Raw::List(vec![text("a,b")]).items(), [text("a,b")]);
    }

    #[test]
    fn variables_are_put_into_strings_however_deep() {
        let raw = Raw::List(vec![Raw::Map(vec![("k".into(), text("${A}"))]), Raw::Switch(true)]);
        let set = |name: &str| (name == "A").then(|| "1".to_owned());
        let expected = Raw::List(vec![Raw::Map(vec![("k".into(), text("1"))]), Raw::Switch(true)]);
        assert_eq!(raw.expanded(&set), Ok(expected));
        assert!(raw.expanded(&|_| None).unwrap_err().contains("variable A "));
    }
}
