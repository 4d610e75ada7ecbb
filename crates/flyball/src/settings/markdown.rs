//! `docs/settings.md` and `docs/experiment-settings.md`, made from the tables.

use std::fmt::Write as _;

use flyball_server::Changes;

use super::listeners::LISTENERS;
use super::server::SETTINGS;
use super::site::{SITE_SETTINGS, SITE_TABLES};
use super::table::{Setting, Table, find};
use super::task::Task;

const INTRODUCTION: &str = "\
# Settings

Made from the tables in `crates/flyball/src/settings/` by `cargo xtask docs`.

Every setting has a key. You write it in the configuration file (`flyball serve --config FILE`) or
as `--set KEY=VALUE`; some settings also have a flag. The file overrides the defaults; `--set` and
flags override the file, and a later one overrides an earlier one. `flyball check --config FILE`
checks a file. [example.toml](example.toml) has every setting except those of
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
  `kB` or `KB`, `MB`, `GB`, `TB` (powers of 1,000).
- A **duration** has a unit: `ms`, `s`, `min`, `h`, `d`. Only 0 needs none.
- A **switch** is `true` or `false`; as a string also `\"on\"` or `\"off\"`.
- A **list** is an array, or one string with commas.
- A **relative path** starts from the directory of the configuration file; on the command line, from
  the current directory.

In the file, a string may contain environment variables. `${NAME}` is the value of a variable that
must be set. `${NAME:-default}` is the default if the variable is not set or empty. `$${` stands for
`${`. To use a variable for a number or a switch, write the value as a string.

An unknown key is an error, and so is a value out of bounds: the server does not start, and exits
with code 2.

A reload (`flyball ctl reload`, SIGHUP) applies changes of the file. `flyball ctl set KEY VALUE`
changes a single setting, if its section says so. All architectures use a setting, unless its
section names those that do.

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
the root DIR and with listings on. If it listens only on 127.0.0.1 or [::1], that site answers to
`localhost`, to addresses and to `admin-hosts`. Write tables such as `[[site.redirect]]` below the
keys of their site: they belong to the site above them.
";

const EXPERIMENTS: &str = "\
# Settings for experiments

Made from the tables in `crates/flyball/src/settings/` by `cargo xtask docs`.

These settings are for measurements: a server in use needs none of them. They show what a mechanism
of the papers is worth, or what a habit costs that the papers advise against. Experiments of the lab
([lab.md](lab.md)) set them, and so does `--set experiment.KEY=VALUE`:

```toml
[experiment]
date-cache = false
gather = false
```

`flyball serve --help`, [example.toml](example.toml) and `flyball explain` leave them out, unless a
configuration holds one. [settings.md](settings.md) has all others and says how values are written.

";

/// What nearly every server needs to have set; those of a site begin with `site.`.
const FIRST: [&str; 10] = [
    "listen",
    "site.hosts",
    "site.root",
    "site.listing",
    "site.cache-control",
    "access-log",
    "admin",
    "user",
    "limit.body",
    "workers",
];

/// The text of `docs/settings.md`.
pub fn settings_markdown() -> String {
    let mut text = String::from(INTRODUCTION);
    first(&mut text);
    text.push_str("\n## By task\n\n");
    for task in Task::OF_SERVER {
        contents(task, "", &mut text);
    }
    for task in Task::OF_SITE {
        contents(task, "Sites: ", &mut text);
    }
    text.push_str("- [Tables of a site](#tables-of-a-site)\n");
    for task in Task::OF_SERVER {
        line(&mut text, format_args!("\n## {}\n", task.title()));
        settings_of(SETTINGS, task, &mut text);
        if task == Task::Start {
            table_section(&LISTENERS, "", &mut text);
        }
    }
    text.push_str(SITES);
    for task in Task::OF_SITE {
        line(&mut text, format_args!("\n## Sites: {}\n", task.title()));
        settings_of(SITE_SETTINGS, task, &mut text);
    }
    text.push_str("\n## Tables of a site\n");
    for table in SITE_TABLES {
        table_section(table, "site.", &mut text);
    }
    text
}

/// The text of `docs/experiment-settings.md`.
pub fn experiments_markdown() -> String {
    let mut text = String::from(EXPERIMENTS);
    settings_of(SETTINGS, Task::Experiment, &mut text);
    text
}

/// The settings that come first, each with a link.
fn first(text: &mut String) {
    text.push_str("\n## The ten that you will touch\n\n");
    text.push_str("| key | where | default | what it is |\n| --- | --- | --- | --- |\n");
    for key in FIRST {
        let row = match key.strip_prefix("site.") {
            Some(key) => {
                find(SITE_SETTINGS, key).map(|row| (row.key, "site", row.default, row.doc))
            }
            None => find(SETTINGS, key).map(|row| (row.key, "server", row.default, row.doc)),
        };
        let Some((key, place, default, doc)) = row else { continue };
        let anchor = key.replace('.', "");
        let default = default.map_or("must be given".to_owned(), |default| format!("`{default}`"));
        line(text, format_args!("| [`{key}`](#{anchor}) | {place} | {default} | {doc} |"));
    }
}

/// A line of the table of contents.
fn contents(task: Task, of: &str, text: &mut String) {
    let title = format!("{of}{}", task.title());
    let anchor = title.to_lowercase().replace(' ', "-").replace(':', "");
    line(text, format_args!("- [{title}](#{anchor})"));
}

/// A table of those of a task, and a section for each.
fn settings_of<T>(settings: &'static [Setting<T>], task: Task, text: &mut String) {
    let settings = || settings.iter().filter(|setting| setting.task == task);
    text.push_str("| key | default | what it is |\n| --- | --- | --- |\n");
    for setting in settings() {
        let default = setting.default.map_or(String::new(), |default| format!("`{default}`"));
        line(text, format_args!("| `{}` | {default} | {} |", setting.key, setting.doc));
    }
    settings().for_each(|setting| section(setting, text));
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
    match setting.changes {
        Changes::InPlace => line(text, format_args!("- `flyball ctl set` changes it in place.")),
        Changes::Generation => {
            line(text, format_args!("- `flyball ctl set` changes it by new workers."));
        }
        Changes::Reload => {}
    }
    if let Some(names) = setting.architectures() {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        line(text, format_args!("- Used by: {}.", names.join(", ")));
    }
    if let Some(range) = setting.tune {
        let values: Vec<String> = range.values.iter().map(|value| format!("`{value}`")).collect();
        line(text, format_args!("- `flyball tune` tries: {}.", values.join(", ")));
    }
    if !setting.source.is_empty() {
        line(text, format_args!("- From: {}.", setting.source));
    }
}

fn table_section<T>(table: &Table<T>, prefix: &str, text: &mut String) {
    line(text, format_args!("\n### `[[{prefix}{}]]`\n\n{}.", table.key, table.doc));
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
    fn each_setting_has_a_group_of_its_page() {
        for setting in SETTINGS {
            let is_grouped = Task::OF_SERVER.contains(&setting.task);
            assert!(is_grouped != setting.is_experiment(), "{}", setting.key);
        }
        for setting in SITE_SETTINGS {
            assert!(Task::OF_SITE.contains(&setting.task), "{}", setting.key);
        }
        for setting in SITE_TABLES.iter().flat_map(|table| table.settings) {
            assert_eq!(setting.task, Task::Table, "{}", setting.key);
        }
        for setting in LISTENERS.settings {
            assert_eq!(setting.task, Task::Table, "{}", setting.key);
        }
        assert_eq!(settings_markdown().matches("| [`").count(), FIRST.len());
    }

    #[test]
    fn each_setting_has_one_section() {
        let text = settings_markdown() + &experiments_markdown();
        let keys = SETTINGS.iter().map(|s| s.key).chain(SITE_SETTINGS.iter().map(|s| s.key));
        let keys: Vec<&str> = keys.collect();
        for key in &keys {
            // Some are of the server, and of each site in its place.
            let all = keys.iter().filter(|one| *one == key).count();
            assert_eq!(text.matches(&format!("\n### `{key}`\n")).count(), all, "{key}");
        }
        for table in SITE_TABLES {
            let heading = format!("\n### `[[site.{}]]`\n", table.key);
            assert_eq!(text.matches(&heading).count(), 1, "{}", table.key);
            for setting in table.settings {
                assert!(text.contains(&format!("| `{}` | {} |", setting.key, setting.form())));
            }
        }
        assert_eq!(text.matches("\n### `[[listener]]`\n").count(), 1);
        let sections = SETTINGS.len() + SITE_SETTINGS.len() + SITE_TABLES.len() + 1;
        assert_eq!(text.matches("\n### ").count(), sections);
    }
}
