//! Whatever a configuration file holds, it gives settings or errors that name a line of it.

use std::path::Path;

use flyball::settings::{ERRORS_MAX, Origin, SettingError, parse, resolve_in};
use flyball_arch::Settings;
use proptest::prelude::*;

fn resolve(text: &str) -> Result<Settings, Vec<SettingError>> {
    let typed = parse(Path::new("flyball.toml").into(), text)?;
    resolve_in(&typed, &["n-copy", "sped", "symped"], &|_| None)
}

/// Text that is near TOML, and near a configuration: most of it parses in part.
fn toml_like() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-z.\\[\\]{}=\"'#,0-9\\n ${}:-]{0,12}",
        "\\PC{0,4}",
        prop::sample::select(vec![
            "[accept]\n",
            "limit = ",
            "[[site]]\n",
            "root = \"src\"\n",
            "hosts = [",
            "\"*\"",
            "]\n",
            "listen = ",
            "8080",
            "\"${A}\"",
            "\"${\"",
            "types = {",
            "}\n",
            "arch = \"sped\"\n",
            "inf",
            "\"\"\"",
            "\u{0}",
            "\r\n",
            "1979-05-27",
            "true\n",
            "site = [",
            "workers = 0x",
            "a.b.c = ",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gives_settings_or_errors_within_the_file(text in toml_like()) {
        let lines = text.matches('\n').count() + 1;
        let Err(errors) = resolve(&text) else { return Ok(()) };
        prop_assert!(!errors.is_empty() && errors.len() <= ERRORS_MAX);
        for error in &errors {
            prop_assert!(!error.why.is_empty());
            prop_assert!(!error.to_string().contains('\n'), "{}", error);
            if let Origin::File { line: Some(line), .. } = error.origin {
                prop_assert!((1..=lines).contains(&line), "{}", error);
            }
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    for text in [
        format!("a = {}{}", "[".repeat(10_000), "]".repeat(10_000)),
        format!("a = {}", "{ b = ".repeat(10_000)),
        format!("{}a = 1", "a.".repeat(10_000)),
    ] {
        assert!(
            resolve(&text).is_err_and(|errors| errors[0].to_string().starts_with("flyball.toml")),
            "{}",
            &text[..20]
        );
    }
}
