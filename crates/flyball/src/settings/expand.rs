//! Environment variables within the strings of a configuration file.

/// Looks a variable up; `None` when it is not set.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The environment of this process. A variable that is not UTF-8 counts as not set.
pub(super) fn process_environment(name: &str) -> Option<String> {
    std::env::var_os(name)?.into_string().ok()
}

/// Replaces `${NAME}` and `${NAME:-default}`; `$${` stands for `${`, any other `$` for itself.
///
/// As in a shell, the default is also taken when the variable is empty. What is put in is not
/// looked at again. Nothing blocks.
///
/// # Errors
/// A variable that is not set and has no default, a name that no variable can have, `${` that is
/// not closed: the text says which.
pub(super) fn expand(text: &str, environment: Environment<'_>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        expanded.push_str(&rest[..dollar]);
        rest = &rest[dollar..];
        if let Some(after) = rest.strip_prefix("$${") {
            expanded.push_str("${");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("${") {
            let (inside, after) = after.split_once('}').ok_or("`${` is not closed by `}`")?;
            expanded.push_str(&variable(inside, environment)?);
            rest = after;
        } else {
            expanded.push('$');
            rest = &rest[1..];
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn variable(inside: &str, environment: Environment<'_>) -> Result<String, String> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if !is_name(name) {
        return Err(format!("{name:?} is not the name of an environment variable"));
    }
    match (environment(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => {
            Err(format!("the environment variable {name} is not set and has no default"))
        }
    }
}

fn is_name(name: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    name.bytes().next().is_some_and(letter) && name.bytes().all(|b| letter(b) || b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn environment(name: &str) -> Option<String> {
        match name {
            "PORT" => Some("8080".into()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${PORT}".into()),
            "_a1" => Some("x".into()),
            _ => None,
        }
    }

    #[test]
    fn variables_defaults_and_escapes_are_replaced() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("${PORT}", "8080"),
            (":${PORT}/${_a1}.", ":8080/x."),
            ("${MISSING:-9090}", "9090"),
            ("${MISSING:-}", ""),
            ("${MISSING:-a:-b}", "a:-b"),
            ("${PORT:-9090}", "8080"),
            ("${EMPTY:-9090}", "9090"),
            ("<${EMPTY}>", "<>"),
            ("$${PORT}", "${PORT}"),
            ("$$${PORT}", "$${PORT}"),
            ("$", "$"),
            ("5$ $PORT $$", "5$ $PORT $$"),
            ("${NESTED}", "${PORT}"),
            ("é${PORT}é", "é8080é"),
        ] {
            assert_eq!(expand(text, &environment).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_replaced_is_named() {
        for (text, why) in [
            ("${MISSING}", "the environment variable MISSING is not set and has no default"),
            ("${PORT", "`${` is not closed by `}`"),
            ("${}", "\"\" is not the name of an environment variable"),
            ("${1A}", "\"1A\" is not the name of an environment variable"),
            ("${A B:-c}", "\"A B\" is not the name of an environment variable"),
            ("${A-b}", "\"A-b\" is not the name of an environment variable"),
        ] {
            assert_eq!(expand(text, &environment), Err(why.to_owned()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_expands_or_is_refused(text in "[${}:A-Zé-]{0,40}") {
            let _ = expand(&text, &environment);
        }

        #[test]
        fn text_without_a_dollar_stays_as_it_is(text in "[^$]*") {
            prop_assert_eq!(expand(&text, &environment), Ok(text));
        }
    }
}
