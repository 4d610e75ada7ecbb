//! Reads a configuration file: TOML in, keys and values with their lines out.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use flyball_sys::secret_file;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::error::{ERRORS_MAX, Origin, SettingError};
use super::listeners::LISTENERS;
use super::raw::Raw;
use super::site::{SITE_SETTINGS, SITE_TABLES};
use super::table::{Setting, Table, find, has_keys_beneath};
use super::typed::{Typed, TypedSite, TypedTable, Written};

/// Longest configuration file, in bytes.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The key of the tables that describe sites.
pub(super) const SITE: &str = "site";

/// Reads a configuration file alone. Blocks on the disk, and never waits for a pipe: the master
/// does nothing else while it reads.
///
/// # Errors
/// When it is no regular file, cannot be read, is longer than [`FILE_BYTES_MAX`], is not UTF-8, or
/// is not TOML; nothing is known about its keys yet.
pub(super) fn read(path: &Path) -> Result<Typed, Vec<SettingError>> {
    let path: Arc<Path> = path.into();
    let bytes = match secret_file::read(&path, FILE_BYTES_MAX) {
        Ok(file) => file.bytes,
        Err(error) => {
            let whole = Origin::File { path, line: None };
            return Err(vec![problem(whole, format!("cannot be read: {error}"))]);
        }
    };
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(path, text),
        Err(error) => {
            let before = &bytes[..error.valid_up_to()];
            let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
            Err(vec![problem(Origin::File { path, line: Some(line) }, "is not UTF-8".into())])
        }
    }
}

/// Reads the text of a configuration file. `path` is only named in errors.
///
/// # Errors
/// When the text is not TOML: one error for each line that is wrong, [`ERRORS_MAX`] at most.
pub fn parse(path: Arc<Path>, text: &str) -> Result<Typed, Vec<SettingError>> {
    let reader = Reader { lines: Lines::new(text), path };
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(reader.syntax_errors(text, &errors));
    }
    let mut typed = Typed { file: Some(reader.path.clone()), ..Typed::default() };
    reader.server(table.get_ref(), "", &mut typed);
    // The parser orders keys by name; people think in lines.
    typed.values.sort_by(|a, b| a.origin.order().cmp(&b.origin.order()));
    Ok(typed)
}

struct Reader {
    path: Arc<Path>,
    lines: Lines,
}

/// What the library says of `mode = 0660`.
const LEADING_ZERO: &str = "unexpected leading zero, expected nothing";

/// What it says of a key that comes twice, also as a value and a table.
const DUPLICATE_KEY: &str = "duplicate key";

impl Reader {
    fn syntax_errors(&self, text: &str, errors: &[toml::de::Error]) -> Vec<SettingError> {
        let mut problems: Vec<SettingError> = errors
            .iter()
            .map(|error| {
                let line = error.span().map(|span| self.lines.number(span.start));
                let key = error.span().and_then(|span| text.get(span)).map(str::trim);
                let message = match error.message() {
                    DUPLICATE_KEY if let Some(key) = key.filter(|key| !key.contains('\n')) => {
                        format!(
                            "{key} is written already: each key once, as a value (`{key} = ..`) \
                             or as a table ([{key}] or [[{key}]])"
                        )
                    }
                    LEADING_ZERO => format!("{LEADING_ZERO}: a mode such as \"0660\" is in quotes"),
                    message => message.to_owned(),
                };
                problem(Origin::File { path: self.path.clone(), line }, message)
            })
            .collect();
        problems.sort_by(|a, b| a.origin.order().cmp(&b.origin.order()));
        // What follows on a broken line is mostly noise.
        problems.dedup_by_key(|error| error.origin.clone());
        problems.truncate(ERRORS_MAX);
        problems
    }

    /// Flattens tables into dotted keys.
    fn server(&self, table: &DeTable<'_>, prefix: &str, typed: &mut Typed) {
        for (key, value) in table {
            let dotted = format!("{prefix}{}", shown_key(key.get_ref()));
            let origin = self.origin(key);
            let is_array = dotted == SITE || dotted == LISTENERS.key;
            match value.get_ref() {
                DeValue::Array(items)
                    if is_array && items.iter().all(|item| item.get_ref().is_table()) =>
                {
                    if dotted == SITE {
                        typed.sites.extend(items.iter().filter_map(|item| self.site(item)));
                    } else {
                        let table = |item| self.table(&LISTENERS, item);
                        typed.listeners.extend(items.iter().filter_map(table));
                    }
                }
                DeValue::Table(table) if !is_array && !table.is_empty() => {
                    self.server(table, &format!("{dotted}."), typed);
                }
                value => typed.values.push(Written { key: dotted, raw: raw(value), origin }),
            }
        }
    }

    fn site(&self, item: &Spanned<DeValue<'_>>) -> Option<TypedSite> {
        let (mut values, mut tables) = (Vec::new(), Vec::new());
        for (key, value) in item.get_ref().as_table()? {
            let known = SITE_TABLES.iter().find(|known| known.key == key.get_ref().as_ref());
            match (known, value.get_ref()) {
                (Some(known), DeValue::Array(items))
                    if items.iter().all(|item| item.get_ref().is_table()) =>
                {
                    tables.extend(items.iter().filter_map(|item| self.table(known, item)));
                }
                _ => self.value("", key, value, SITE_SETTINGS, &mut values),
            }
        }
        values.sort_by(|a, b| a.origin.order().cmp(&b.origin.order()));
        tables.sort_by(|a, b| a.origin.order().cmp(&b.origin.order()));
        Some(TypedSite { values, tables, origin: self.origin(item) })
    }

    fn table<T>(
        &self,
        known: &'static Table<T>,
        item: &Spanned<DeValue<'_>>,
    ) -> Option<TypedTable> {
        let mut values = Vec::new();
        for (key, value) in item.get_ref().as_table()? {
            self.value("", key, value, known.settings, &mut values);
        }
        values.sort_by(|a, b| a.origin.order().cmp(&b.origin.order()));
        Some(TypedTable { key: known.key, values, origin: self.origin(item) })
    }

    /// One key of a table. A table as its value is the value of a setting, of which each entry is
    /// given alone so that it has its line, or holds keys with a dot.
    fn value<T>(
        &self,
        prefix: &str,
        key: &Spanned<Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        settings: &'static [Setting<T>],
        values: &mut Vec<Written>,
    ) {
        let dotted = format!("{prefix}{}", shown_key(key.get_ref()));
        let entries = match value.get_ref() {
            DeValue::Table(entries) if !entries.is_empty() => entries,
            value => {
                let origin = self.origin(key);
                return values.push(Written { key: dotted, raw: raw(value), origin });
            }
        };
        if find(settings, &dotted).is_some() {
            values.extend(entries.iter().map(|(name, value)| Written {
                key: dotted.clone(),
                raw: Raw::Map(vec![(name.get_ref().to_string(), raw(value.get_ref()))]),
                origin: self.origin(name),
            }));
        } else if has_keys_beneath(settings, &dotted) {
            for (key, value) in entries {
                self.value(&format!("{dotted}."), key, value, settings, values);
            }
        } else {
            let origin = self.origin(key);
            values.push(Written { key: dotted, raw: raw(value.get_ref()), origin });
        }
    }

    fn origin<V>(&self, spanned: &Spanned<V>) -> Origin {
        let line = Some(self.lines.number(spanned.span().start));
        Origin::File { path: self.path.clone(), line }
    }
}

/// A part of a key as TOML has it written, so that one with a dot in it is not taken for two.
fn shown_key(part: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !part.is_empty() && part.bytes().all(bare) { part.to_owned() } else { format!("{part:?}") }
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.clone().into_owned()),
        DeValue::Integer(integer) => Raw::Number(decimal(integer)),
        DeValue::Float(float) => Raw::Number(float.as_str().to_owned()),
        DeValue::Boolean(on) => Raw::Switch(*on),
        DeValue::Datetime(date) => Raw::Date(date.to_string()),
        DeValue::Array(items) => Raw::List(items.iter().map(|item| raw(item.get_ref())).collect()),
        DeValue::Table(table) => Raw::Map(
            table
                .iter()
                .map(|(key, value)| (key.get_ref().clone().into_owned(), raw(value.get_ref())))
                .collect(),
        ),
    }
}

fn decimal(integer: &DeInteger<'_>) -> String {
    match u64::from_str_radix(integer.as_str(), integer.radix()) {
        Ok(number) => number.to_string(),
        Err(_) => integer.to_string(),
    }
}

fn problem(origin: Origin, why: String) -> SettingError {
    SettingError { key: String::new(), value: None, why, origin }
}

/// Where lines begin, so that an offset is turned into a line number without a walk over the text.
struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    fn new(text: &str) -> Lines {
        let starts = text.match_indices('\n').map(|(feed, _)| feed + 1);
        Lines { starts: std::iter::once(0).chain(starts).collect() }
    }

    /// The line of a byte, from 1.
    fn number(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset)
    }
}
