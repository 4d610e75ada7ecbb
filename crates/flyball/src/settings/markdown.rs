//! `docs/settings.md` and `docs/experiment-settings.md`, made from the tables.

use std::fmt::Write as _;

use super::server::SETTINGS;
use super::site::{SITE_SETTINGS, SITE_TABLES};
use super::table::{Setting, Table};

const INTRODUCTION: &str = "\
# Settings

Made from the tables in `crates/flyball/src/settings/` by `cargo xtask docs`.

Every setting has a key. It is written in the configuration file (`flyball serve --config FILE`) or
as `--set KEY=VALUE`; some have a flag of their own besides. Defaults hold first, then the file,
then `--set` and flags in the order given. `flyball check --config FILE` says whether a file is
right. [example.toml](example.toml) holds every setting, but for those of
[experiments](experiment-settings.md).

The file is TOML. The key `accept.limit` is the key `limit` of the table `[accept]`:

```toml
workers = 4

[accept]
limit = \"inf\"

[[site]]
hosts = [\"example.org\", \"*.example.org\"]
root = \"/srv/example\"
```

- An **integer** is written in decimal digits.
- A **size** is a number of bytes, or has a unit: `B`, `KiB`, `MiB`, `GiB`, `TiB` (powers of 1,024),
  `kB`, `MB`, `GB`, `TB` (powers of 1,000).
- A **duration** has a unit: `ms`, `s`, `min`, `h`. Only 0 needs none.
- A **switch** is `true` or `false`; as a string also `\"on\"` or `\"off\"`.
- A **list** is an array, or one string with commas.
- A **relative path** starts from the directory of the file that it is written in; on the command
  line, from the current directory.

In the file, a string may hold environment variables: `${NAME}` is replaced by the value and must be
set, `${NAME:-default}` takes the default when the variable is not set or empty, and `$${` stands
for `${`. A number or switch may be written as a string for that.

An unknown key is an error, and so is a value out of bounds: the server then does not start, and
exits with code 2.

S0 to S4 are the papers that a setting comes from, and M1 to M172 the mechanisms in them:

- S0: Brecht, Pariag, Gammo: accept()able Strategies for Improving Web Server Performance,
  USENIX 2004.
- S1: Shukla, Li, Subramanian, Ward, Brecht: Evaluating the Performance of User-Space and
  Kernel-Space Web Servers, CASCON 2004.
- S2: Pai, Druschel, Zwaenepoel: Flash, USENIX 1999.
- S3: Hu, Mungee, Schmidt: Techniques for Developing and Measuring High-Performance Web Servers
  over ATM Networks, INFOCOM 1998.
- S4: Harji, Buhr, Brecht: Comparing High-Performance Multi-core Web-Server Architectures,
  SYSTOR 2012.
";

const SITES: &str = "
## Sites

Each `[[site]]` table of the file describes one site. Exactly one may be the default site, whose
hosts hold `*`; two sites cannot claim one host. `flyball serve DIR` serves one default site with
the root DIR and with listings on; where it listens on 127.0.0.1 or [::1] alone, that site answers
to `localhost`, to addresses and to `admin-hosts`. Tables such as `[[site.redirect]]` come below the
keys of their site, and belong to the site above them.
";

const EXPERIMENTS: &str = "\
# Settings for experiments

Made from the tables in `crates/flyball/src/settings/` by `cargo xtask docs`.

These settings show what a mechanism of the papers is worth, or what a habit costs that they advise
against. They are for measurements, and no server that is used needs one. The experiments in
`lab/experiments` set them ([lab.md](lab.md)), and so does `--set experiment.KEY=VALUE`:

```toml
[experiment]
date-cache = false
gather = false
```

`flyball serve --help`, [example.toml](example.toml) and `flyball explain` leave them out, unless a
configuration holds one. [settings.md](settings.md) has all others and says how values are written.

";

/// The text of `docs/settings.md`.
pub fn settings_markdown() -> String {
    let mut text = String::from(INTRODUCTION);
    text.push_str("\n## Server\n\n");
    let settings = || SETTINGS.iter().filter(|setting| !setting.is_experiment());
    overview(settings(), &mut text);
    settings().for_each(|setting| section(setting, &mut text));
    text.push_str(SITES);
    for setting in SITE_SETTINGS {
        section(setting, &mut text);
    }
    for table in SITE_TABLES {
        table_section(table, &mut text);
    }
    text
}

/// The text of `docs/experiment-settings.md`.
pub fn experiments_markdown() -> String {
    let mut text = String::from(EXPERIMENTS);
    let settings = || SETTINGS.iter().filter(|setting| setting.is_experiment());
    overview(settings(), &mut text);
    settings().for_each(|setting| section(setting, &mut text));
    text
}

fn overview(table: impl Iterator<Item = &'static Setting>, text: &mut String) {
    text.push_str("| key | default | what it is |\n| --- | --- | --- |\n");
    for setting in table {
        let default = setting.default.unwrap_or_default();
        line(text, format_args!("| `{}` | `{default}` | {} |", setting.key, setting.doc));
    }
}

fn section<T>(setting: &Setting<T>, text: &mut String) {
    line(text, format_args!("\n### `{}`\n\n{}.", setting.key, setting.doc));
    if !setting.more.is_empty() {
        line(text, format_args!("{}", setting.more));
    }
    line(text, format_args!("\n- Value: {}.", setting.form()));
    match setting.default {
        Some(default) => line(text, format_args!("- Default: `{default}`.")),
        None => line(text, format_args!("- It must be given.")),
    }
    if let Some(flag) = &setting.flag {
        line(text, format_args!("- Flag: `--{} {}`.", flag.name, flag.value));
    }
    if !setting.source.is_empty() {
        line(text, format_args!("- From: {}.", setting.source));
    }
}

fn table_section<T>(table: &Table<T>, text: &mut String) {
    line(text, format_args!("\n### `[[site.{}]]`\n\n{}.", table.key, table.doc));
    if !table.more.is_empty() {
        line(text, format_args!("{}", table.more));
    }
    text.push_str("\n| key | value | default | what it is |\n| --- | --- | --- | --- |\n");
    for setting in table.settings {
        // A bar would end the cell.
        let form = setting.form().replace('|', "\\|");
        let default = match setting.default {
            Some(default) => format!("`{default}`"),
            None => "it must be given".to_owned(),
        };
        line(text, format_args!("| `{}` | {form} | {default} | {} |", setting.key, setting.doc));
    }
    for setting in table.settings.iter().filter(|setting| !setting.more.is_empty()) {
        line(text, format_args!("\n`{}`: {}", setting.key, setting.more));
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("a String takes all that is written to it");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_document_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            found == settings_markdown(),
            "docs/settings.md is stale: run `cargo xtask docs` and commit the result"
        );
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/experiment-settings.md");
        assert!(
            std::fs::read_to_string(path).unwrap_or_default() == experiments_markdown(),
            "docs/experiment-settings.md is stale: run `cargo xtask docs` and commit the result"
        );
    }

    #[test]
    fn each_setting_has_one_section() {
        let text = settings_markdown() + &experiments_markdown();
        let keys = SETTINGS.iter().map(|s| s.key).chain(SITE_SETTINGS.iter().map(|s| s.key));
        for key in keys {
            assert_eq!(text.matches(&format!("\n### `{key}`\n")).count(), 1, "{key}");
        }
        for table in SITE_TABLES {
            let heading = format!("\n### `[[site.{}]]`\n", table.key);
            assert_eq!(text.matches(&heading).count(), 1, "{}", table.key);
            for setting in table.settings {
                assert!(text.contains(&format!("| `{}` | {} |", setting.key, setting.form())));
            }
        }
        let sections = SETTINGS.len() + SITE_SETTINGS.len() + SITE_TABLES.len();
        assert_eq!(text.matches("\n### ").count(), sections);
    }
}
