//! The kinds of values that settings take: what they look like, and how they are read and stored.

use std::path::{Path, PathBuf};

use flyball_arch::{AcceptLimit, AccessLog, AdminPlace, FormatError, Listen, LogFormat};
use flyball_http::coding::Coding;
use flyball_site::{FILTERS, routes};
use flyball_sys::net::Endpoint;

use super::address::{self, Schemed};
use super::raw::Raw;
use super::suggest::nearest;
use super::table::Word;
use super::text;

/// A socket whose place follows from the machine.
const AUTO: &str = "auto";

/// The kind of a setting's value, and the function that stores a valid one in `T`.
pub enum Kind<T: 'static> {
    /// An integer within bounds.
    Integer {
        /// Least valid value.
        least: u64,
        /// Greatest valid value.
        most: u64,
        /// Stores it.
        set: fn(&mut T, u64),
    },
    /// A size in bytes, such as `64KiB`.
    Size {
        /// Least valid value, in bytes.
        least: u64,
        /// Greatest valid value, in bytes.
        most: u64,
        /// Stores it, in bytes.
        set: fn(&mut T, u64),
    },
    /// A duration, such as `10s` or `250ms`.
    Duration {
        /// Least valid value, in milliseconds.
        least_ms: u64,
        /// Greatest valid value, in milliseconds.
        most_ms: u64,
        /// Stores it, in milliseconds.
        set: fn(&mut T, u64),
    },
    /// One of some integers.
    Among {
        /// The integers, in ascending order.
        numbers: &'static [u64],
        /// Stores it.
        set: fn(&mut T, u64),
    },
    /// `true` or `false`.
    Switch {
        /// Stores it.
        set: fn(&mut T, bool),
    },
    /// One of some names.
    OneOf {
        /// The names.
        names: &'static [Word<T>],
    },
    /// Text of a certain form.
    Text {
        /// The form, with its article, as an error names what was expected.
        form: &'static str,
        /// Whether a text has the form.
        valid: fn(&str) -> bool,
        /// Stores it.
        set: fn(&mut T, String),
    },
    /// A list of texts of a certain form.
    Texts {
        /// The form of each, with its article.
        form: &'static str,
        /// Whether the list may be empty.
        empty: bool,
        /// Whether a text has the form.
        valid: fn(&str) -> bool,
        /// Stores them.
        set: fn(&mut T, Vec<String>),
    },
    /// A list of content codings, at least one.
    Codings {
        /// Stores them.
        set: fn(&mut T, Vec<Coding>),
    },
    /// A list of integers within bounds, at least one.
    Integers {
        /// Least valid value.
        least: u64,
        /// Greatest valid value.
        most: u64,
        /// Stores them.
        set: fn(&mut T, Vec<u64>),
    },
    /// A list of addresses, at least one.
    Addresses {
        /// Stores them.
        set: fn(&mut T, Vec<Listen>),
    },
    /// An address to listen on.
    Address {
        /// Stores it.
        set: fn(&mut T, Schemed),
    },
    /// A fraction, a number or `inf`.
    Limit {
        /// Stores it.
        set: fn(&mut T, AcceptLimit),
    },
    /// An address or `unix:PATH`.
    Endpoint {
        /// Stores it.
        set: fn(&mut T, Endpoint),
    },
    /// A list of places where a server is asked: `auto`, an address or `unix:PATH`.
    Admin {
        /// Stores them.
        set: fn(&mut T, Vec<AdminPlace>),
    },
    /// A path, or `-`.
    Log {
        /// What `-` is.
        dash: fn() -> AccessLog,
        /// Stores it.
        set: fn(&mut T, AccessLog),
    },
    /// What a line of the access log holds.
    LogFormat {
        /// Stores it.
        set: fn(&mut T, LogFormat),
    },
    /// The path of a file or directory.
    Path {
        /// Stores it.
        set: fn(&mut T, PathBuf),
    },
    /// A table of media types by file name extension. Its entries may come one by one: each call
    /// brings more.
    Types {
        /// Stores more of them.
        set: fn(&mut T, Vec<(String, String)>),
    },
    /// A table of header fields. Its entries may come one by one: each call brings more.
    Fields {
        /// Stores more of them, in the order of lines.
        set: fn(&mut T, Vec<(String, String)>),
    },
    /// A table of files by status. Its entries may come one by one: each call brings more.
    Pages {
        /// Stores more of them, in the order of lines.
        set: fn(&mut T, Vec<(u16, PathBuf)>),
    },
}

/// Why a value is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// What was expected, such as `a size such as 64KiB`.
    pub expected: String,
    /// What was found, as an error shows it; of a list, the first item that is wrong.
    pub found: String,
}

impl<T> Clone for Kind<T> {
    fn clone(&self) -> Kind<T> {
        *self
    }
}

impl<T> Copy for Kind<T> {}

impl<T> Kind<T> {
    /// Reads a value and stores it. Relative paths start from `base`. Nothing blocks.
    ///
    /// # Errors
    /// What was expected and what was found; `target` is then as it was.
    pub fn apply(&self, target: &mut T, raw: &Raw, base: &Path) -> Result<(), Mismatch> {
        self.read(target, raw, base)
            .ok_or_else(|| Mismatch { expected: self.expected(raw), found: self.found(raw) })
    }

    fn read(&self, target: &mut T, raw: &Raw, base: &Path) -> Option<()> {
        match self {
            Kind::Integer { least, most, set } => {
                let number = text::integer(raw.number()?)?;
                set(target, within(number, *least, *most)?);
            }
            Kind::Size { least, most, set } => {
                set(target, within(text::size(raw.number()?)?, *least, *most)?);
            }
            Kind::Duration { least_ms, most_ms, set } => {
                let ms = text::duration_ms(raw.number()?)?;
                set(target, within(ms, *least_ms, *most_ms)?);
            }
            Kind::Switch { set } => set(target, switch(raw)?),
            Kind::OneOf { names } => {
                let wanted = raw.text()?;
                let word = names.iter().find(|word| word.name == wanted)?;
                (word.set)(target);
            }
            Kind::Text { valid, set, .. } => {
                set(target, raw.text().filter(|text| valid(text))?.to_owned());
            }
            Kind::Texts { empty, valid, set, .. } => {
                let texts = texts(raw, *valid)?;
                set(target, (*empty || !texts.is_empty()).then_some(texts)?);
            }
            Kind::Codings { set } => {
                let codings: Vec<Coding> =
                    raw.items().iter().map(coding_of).collect::<Option<_>>()?;
                set(target, (!codings.is_empty()).then_some(codings)?);
            }
            Kind::Integers { least, most, set } => {
                let items = raw.items();
                let read = |item| integer_of(item, *least, *most);
                let numbers: Vec<u64> = items.iter().map(read).collect::<Option<_>>()?;
                set(target, (!numbers.is_empty()).then_some(numbers)?);
            }
            Kind::Addresses { set } => set(target, addresses(raw, base)?),
            Kind::Address { set } => set(target, address::listen(raw.number()?, base)?),
            Kind::Limit { set } => set(target, AcceptLimit::parse(raw.number()?)?),
            Kind::Endpoint { set } => set(target, address::admin(raw.number()?, base)?),
            Kind::Admin { set } => {
                let items = raw.items();
                let places: Vec<_> =
                    items.iter().map(|item| place_of(item, base)).collect::<Option<_>>()?;
                // A list may be empty, and a text says something.
                set(target, (raw.text().is_none() || !places.is_empty()).then_some(places)?);
            }
            Kind::Log { dash, set } => set(target, address::log(raw.text()?, base, *dash)?),
            Kind::LogFormat { set } => set(target, LogFormat::parse(raw.text()?).ok()?),
            Kind::Path { set } => set(target, address::path(raw.text()?, base)?),
            Kind::Types { set } => set(target, entries(raw, type_of)?),
            Kind::Fields { set } => set(target, entries(raw, field_of)?),
            Kind::Pages { set } => set(target, entries(raw, |entry| page_of(entry, base))?),
            Kind::Among { numbers, set } => {
                let number = text::integer(raw.number()?)?;
                set(target, numbers.contains(&number).then_some(number)?);
            }
        }
        Some(())
    }

    /// What a wrong value should have been. Bounds are told to those who kept to the form.
    fn expected(&self, raw: &Raw) -> String {
        let number = raw.number().unwrap_or_default();
        match self {
            Kind::Fields { .. } => match wrong_field(raw) {
                Some(why) => why,
                None => self.form(),
            },
            Kind::Size { .. } if text::size(number).is_none() => "a size such as 64KiB".into(),
            Kind::Duration { .. } if text::duration_ms(number).is_none() => {
                "a duration such as 250ms, 10s, 5min, 1h or 365d".into()
            }
            Kind::OneOf { names } if raw.text().is_none() => {
                let quoted = one_of(names.iter().map(|word| format!("{:?}", word.name)));
                format!("{quoted}, in quotes")
            }
            Kind::Endpoint { .. } => {
                raw.number().and_then(address::instead_of_path).unwrap_or_else(|| self.form())
            }
            Kind::Admin { .. } => {
                let items = raw.items();
                let wrong = items.iter().find(|item| place_of(item, Path::new("")).is_none());
                let instead = wrong.and_then(Raw::number).and_then(address::instead_of_path);
                instead.unwrap_or_else(|| self.form())
            }
            Kind::Address { .. } => {
                raw.number().and_then(address::instead).unwrap_or_else(|| self.form())
            }
            Kind::Addresses { .. } => {
                let items = raw.items();
                let wrong = items.iter().find(|item| address_of(item, Path::new("")).is_none());
                let instead = wrong.and_then(Raw::number).and_then(address::instead);
                instead.unwrap_or_else(|| self.form())
            }
            Kind::LogFormat { .. } => {
                let unknown = raw.text().and_then(unknown_field);
                let near = unknown.and_then(|field| near_field(&field));
                near.map_or_else(|| self.form(), |near| format!("a field such as {near}"))
            }
            _ => self.form(),
        }
    }

    fn found(&self, raw: &Raw) -> String {
        let wrong = |item: &Raw| match self {
            Kind::Addresses { .. } => address_of(item, Path::new("")).is_none(),
            Kind::Admin { .. } => place_of(item, Path::new("")).is_none(),
            Kind::Integers { least, most, .. } => integer_of(item, *least, *most).is_none(),
            Kind::Texts { valid, .. } => text_of(item, *valid).is_none(),
            Kind::Codings { .. } => coding_of(item).is_none(),
            _ => false,
        };
        let wrong_entry = |entry: &&(String, Raw)| match self {
            Kind::Types { .. } => type_of(entry).is_none(),
            Kind::Fields { .. } => field_of(entry).is_none(),
            Kind::Pages { .. } => page_of(entry, Path::new("")).is_none(),
            _ => false,
        };
        match (self, raw) {
            (_, Raw::Map(entries)) => {
                entries.iter().find(wrong_entry).map(|(name, value)| format!("{name:?} = {value}"))
            }
            (Kind::LogFormat { .. }, raw) => raw.text().and_then(unknown_field),
            (Kind::Text { .. }, raw) => raw.text().and_then(slip),
            (Kind::Texts { .. }, raw) => {
                let item = raw.items().iter().find(|item| wrong(item)).cloned();
                item.map(|item| item.text().and_then(slip).unwrap_or_else(|| item.to_string()))
            }
            _ => raw.items().iter().find(|item| wrong(item)).map(Raw::to_string),
        }
        .unwrap_or_else(|| raw.to_string())
    }

    /// The form of a valid value in words, with its bounds.
    pub fn form(&self) -> String {
        match self {
            Kind::Integer { least, most, .. } => format!("an integer from {least} to {most}"),
            Kind::Integers { least, most, .. } => {
                format!("a list, each item an integer from {least} to {most}")
            }
            Kind::Size { least, most, .. } => {
                format!("a size from {} to {}", text::shown_size(*least), text::shown_size(*most))
            }
            Kind::Duration { least_ms, most_ms, .. } => format!(
                "a duration from {} to {}",
                text::shown_duration(*least_ms),
                text::shown_duration(*most_ms)
            ),
            Kind::Switch { .. } => "true or false".into(),
            Kind::Among { numbers, .. } => one_of(numbers.iter().map(u64::to_string)),
            Kind::OneOf { names } => one_of(names.iter().map(|word| word.name.to_owned())),
            Kind::Text { form, .. } => (*form).into(),
            Kind::Texts { form, .. } => format!("a list, each item {form}"),
            Kind::Codings { .. } => {
                let names = FILTERS.iter().map(|filter| filter.name.to_owned());
                format!("a list, each item {}", one_of(names))
            }
            Kind::Addresses { .. } => {
                format!("{}, or a list of them", listened())
            }
            Kind::Address { .. } => listened(),
            Kind::Limit { .. } => AcceptLimit::FORM.into(),
            Kind::Endpoint { .. } => format!("{}, or unix:PATH", address::ADDRESS),
            Kind::Admin { .. } => {
                format!("{}, or unix:PATH, or {AUTO}, or a list of them", address::ADDRESS)
            }
            Kind::Log { .. } => "a path, or -".into(),
            Kind::LogFormat { .. } => LogFormat::FORM.into(),
            Kind::Path { .. } => "a path".into(),
            Kind::Types { .. } => {
                "a table of media types by extension such as { md = \"text/markdown\" }".into()
            }
            Kind::Fields { .. } => {
                "a table of fields such as { X-Frame-Options = \"DENY\" }".into()
            }
            Kind::Pages { .. } => {
                "a table of files by status from 400 to 599 such as { 404 = \"404.html\" }".into()
            }
        }
    }
}

/// What may be listened on.
fn listened() -> String {
    format!("{}, or unix:PATH, perhaps with https:// before it", address::ADDRESS)
}

/// `a, b or c`.
fn one_of(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    match names.pop() {
        Some(last) if !names.is_empty() => format!("{} or {last}", names.join(", ")),
        last => last.unwrap_or_default(),
    }
}

fn within(number: u64, least: u64, most: u64) -> Option<u64> {
    (least..=most).contains(&number).then_some(number)
}

fn integer_of(item: &Raw, least: u64, most: u64) -> Option<u64> {
    within(text::integer(item.number()?)?, least, most)
}

fn switch(raw: &Raw) -> Option<bool> {
    match raw {
        Raw::Switch(on) => Some(*on),
        raw => text::switch(raw.text()?),
    }
}

fn texts(raw: &Raw, valid: fn(&str) -> bool) -> Option<Vec<String>> {
    raw.items().iter().map(|item| text_of(item, valid)).collect()
}

fn text_of(item: &Raw, valid: fn(&str) -> bool) -> Option<String> {
    item.text().filter(|text| valid(text)).map(str::to_owned)
}

/// The coding of this very name: others that clients may give it are not for files.
fn coding_of(item: &Raw) -> Option<Coding> {
    let name = item.text()?;
    FILTERS.iter().position(|filter| filter.name == name).and_then(Coding::at)
}

fn addresses(raw: &Raw, base: &Path) -> Option<Vec<Listen>> {
    let items = raw.items();
    let addresses: Option<Vec<Listen>> = items.iter().map(|item| address_of(item, base)).collect();
    addresses.filter(|addresses| !addresses.is_empty())
}

fn address_of(item: &Raw, base: &Path) -> Option<Listen> {
    let Schemed { tls, address } = address::listen(item.number()?, base)?;
    Some(Listen { tls: tls.unwrap_or(false), ..address.into() })
}

fn place_of(item: &Raw, base: &Path) -> Option<AdminPlace> {
    match item.number()? {
        AUTO => Some(AdminPlace::Own(None)),
        text => address::admin(text, base).map(AdminPlace::At),
    }
}

/// A text with what is wrong in it as a path that is hardly meant.
fn slip(text: &str) -> Option<String> {
    let why = text.contains('/').then(|| routes::slip_in_path(text)).flatten()?;
    Some(format!("{text:?}, which {why}"))
}

/// The field of a format that there is none of.
fn unknown_field(format: &str) -> Option<String> {
    match LogFormat::parse(format) {
        Err(FormatError::UnknownField(field)) => Some(field),
        _ => None,
    }
}

/// The field that was probably meant.
fn near_field(unknown: &str) -> Option<String> {
    let fields: Vec<String> = LogFormat::fields().collect();
    nearest(unknown, fields.iter().map(String::as_str)).map(str::to_owned)
}

fn entries<V>(raw: &Raw, entry: impl Fn(&(String, Raw)) -> Option<V>) -> Option<Vec<V>> {
    let Raw::Map(entries) = raw else { return None };
    entries.iter().map(entry).collect()
}

/// Why the first entry that is no field is wrong, in words of what was expected.
fn wrong_field(raw: &Raw) -> Option<String> {
    let Raw::Map(entries) = raw else { return None };
    let texts = entries.iter().filter_map(|(name, value)| Some((name, value.text()?)));
    texts.filter_map(|(name, value)| routes::field_fault(name, value)).next()
}

fn field_of((name, value): &(String, Raw)) -> Option<(String, String)> {
    let value = value.text()?;
    routes::field_fault(name, value).is_none().then(|| (name.clone(), value.to_owned()))
}

fn page_of((status, path): &(String, Raw), base: &Path) -> Option<(u16, PathBuf)> {
    let status = within(text::integer(status)?, 400, 599)?;
    Some((status as u16, address::path(path.text()?, base)?))
}

fn type_of((extension, kind): &(String, Raw)) -> Option<(String, String)> {
    let kind = kind.text().filter(|kind| text::is_media_type(kind))?;
    text::is_extension(extension).then(|| (extension.to_ascii_lowercase(), kind.to_owned()))
}
