//! Rules that set, add and remove fields of answers.

use flyball_http::Fields;
use flyball_http::field::is_name;

use super::pattern::Pattern;
use super::settings::HeaderSettings;
use super::table::Table;

/// Longest value of a field, in bytes.
const VALUE_BYTES_MAX: usize = 4_096;

/// Most rules that are told one by one in a key.
const NUMBERS_MAX: usize = 4;

/// Marks a hash of rules; no rule has this number.
const MANY: u16 = u16::MAX - 2;

/// Fields that rules must leave alone, and why.
const KEPT: &[(&str, &str)] = &[
    ("content-length", "tells where the body ends"),
    ("transfer-encoding", "tells where the body ends"),
    ("trailer", "tells how the body is framed"),
    ("connection", "belongs to the connection"),
    ("keep-alive", "belongs to the connection"),
    ("proxy-connection", "belongs to the connection"),
    ("te", "belongs to the connection"),
    ("upgrade", "belongs to the connection"),
    ("date", "is the time of the answer"),
    ("server", "is switched by the setting head.server"),
    ("content-type", "comes from the setting types of the site"),
    ("content-language", "comes from the setting languages of the site"),
    ("content-encoding", "tells how the body is coded"),
    ("content-range", "tells which part of the body is sent"),
    ("accept-ranges", "tells what requests are understood"),
    ("location", "comes from [[site.redirect]]"),
    ("etag", "requests are compared with"),
    ("last-modified", "requests are compared with"),
];

/// Fields that only count where there is something to keep, and not for an error.
const FRESHNESS: [&str; 2] = ["cache-control", "expires"];

/// Why a rule must not bring a field, as what was expected instead; `None` when it may.
pub fn field_fault(name: &str, value: &str) -> Option<String> {
    if !is_token(name) {
        return Some("a name of letters, digits and dashes before the `=`".into());
    }
    if let Some(why) = kept(name) {
        return Some(why);
    }
    if name.eq_ignore_ascii_case("vary") && value.trim() == "*" {
        return Some("names of fields: `*` would forbid every cache to keep the answer".into());
    }
    // RFC 9110, section 5.5.
    let valid = |byte: u8| byte == b' ' || byte == b'\t' || (byte > b' ' && byte != 0x7f);
    if !value.bytes().all(valid) {
        return Some("a value in one line, without control characters".into());
    }
    if value.len() > VALUE_BYTES_MAX {
        return Some(format!("a value of at most {VALUE_BYTES_MAX} bytes"));
    }
    None
}

/// Why no rule may touch a field, as what was expected instead.
fn kept(name: &str) -> Option<String> {
    let (_, why) = KEPT.iter().find(|(kept, _)| kept.eq_ignore_ascii_case(name))?;
    Some(format!("another field than {name}, which {why}"))
}

/// Why a rule must not remove a field; `None` when it may.
pub(super) fn removal_fault(name: &str) -> Option<String> {
    if name.eq_ignore_ascii_case("vary") {
        return Some(
            "Vary cannot be removed: caches would give one client another's answer".into(),
        );
    }
    kept(name).map(|expected| format!("expected {expected}"))
}

fn is_token(text: &str) -> bool {
    is_name(text.as_bytes())
}

/// A media type or `type/*`.
pub fn is_media_range(text: &str) -> bool {
    text.split_once('/').is_some_and(|(kind, subtype)| {
        is_token(kind) && kind != "*" && is_token(subtype) && !text.contains(';')
    })
}

/// The rules of a site.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldRules {
    table: Table,
    rules: Vec<HeaderSettings>,
}

/// The rules that hold for a path, whatever the type of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleSet {
    rules: Box<[u32]>,
}

impl RuleSet {
    /// What stands for the rules in keys of caches, the same in every process: their numbers, or
    /// where there are many, 64 bits of a hash of them, which no client can choose.
    pub(crate) fn numbers(&self) -> Vec<u16> {
        // FNV-1a: short, and the same everywhere.
        const START: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x100_0000_01b3;
        if self.rules.len() <= NUMBERS_MAX {
            return self.rules.iter().map(|&rule| rule as u16).collect();
        }
        let bytes = self.rules.iter().flat_map(|rule| rule.to_le_bytes());
        let hash = bytes.fold(START, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
        let words = hash.to_le_bytes();
        let mut numbers = vec![MANY];
        numbers.extend(words.chunks(2).map(|word| u16::from_le_bytes([word[0], word[1]])));
        numbers
    }
}

impl FieldRules {
    /// The rules of these settings, with their patterns.
    pub(crate) fn new(rules: &[HeaderSettings], patterns: &[Pattern]) -> FieldRules {
        FieldRules { table: Table::new(patterns), rules: rules.to_vec() }
    }

    /// True when there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules for a canonical path that was asked for by `https`, or not.
    pub(crate) fn of(&self, path: &[u8], is_secure: bool) -> RuleSet {
        if self.rules.is_empty() {
            return RuleSet::default();
        }
        let mut rules = self.table.all(path);
        rules.retain(|&rule| is_secure || !self.rules[rule as usize].only_secure);
        RuleSet { rules: rules.into() }
    }

    /// Changes `fields` by the rules of a set for an answer of this media type. What says how long
    /// an answer may be kept is not brought to an error.
    pub(crate) fn amend(&self, set: &RuleSet, media_type: &str, error: bool, fields: &mut Fields) {
        for rule in set.rules.iter().filter_map(|&rule| self.rules.get(rule as usize)) {
            if rule.media_type.as_deref().is_some_and(|range| !includes(range, media_type)) {
                continue;
            }
            rule.remove.iter().for_each(|name| remove(fields, name));
            let holds = |name: &str| !error || !is_any_of(name, &FRESHNESS);
            for (name, value) in rule.set.iter().filter(|(name, _)| holds(name)) {
                // What an answer depends on stays told.
                if !name.eq_ignore_ascii_case("vary") {
                    remove(fields, name);
                }
                fields.add_named(name, value.trim());
            }
            for (name, value) in rule.add.iter().filter(|(name, _)| holds(name)) {
                fields.add_named(name, value.trim());
            }
        }
    }
}

fn is_any_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// Leaves out the fields of this name.
fn remove(fields: &mut Fields, name: &str) {
    fields.retain(|one, _| !one.eq_ignore_ascii_case(name.as_bytes()));
}

/// Whether a media type, perhaps with parameters, is of this range.
fn includes(range: &str, media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or(media_type).trim();
    match range.strip_suffix("/*") {
        Some(kind) => {
            let found = essence.split('/').next().unwrap_or(essence);
            found.eq_ignore_ascii_case(kind)
        }
        None => essence.eq_ignore_ascii_case(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    fn text(fields: &Fields) -> String {
        String::from_utf8(fields.lines().h1().to_vec()).unwrap()
    }

    fn rules(rules: Vec<HeaderSettings>) -> FieldRules {
        let patterns: Vec<Pattern> =
            rules.iter().map(|rule| Pattern::parse(&rule.path).unwrap()).collect();
        FieldRules::new(&rules, &patterns)
    }

    fn amended(rules: &FieldRules, path: &str, media_type: &str, error: bool) -> String {
        let mut fields: Fields =
            [("Cache-Control", "no-cache"), ("X-Power", "1")].into_iter().collect();
        rules.amend(&rules.of(path.as_bytes(), true), media_type, error, &mut fields);
        text(&fields)
    }

    fn all(path: &str) -> HeaderSettings {
        HeaderSettings { path: path.into(), ..HeaderSettings::default() }
    }

    #[test]
    fn what_is_said_over_tls_alone_is_not_said_in_the_clear() {
        let set = pairs(&[("Strict-Transport-Security", "max-age=1")]);
        let rules = rules(vec![
            HeaderSettings { only_secure: true, set, ..HeaderSettings::default() },
            HeaderSettings { set: pairs(&[("A", "1")]), ..HeaderSettings::default() },
        ]);
        let numbers = |is_secure| rules.of(b"/", is_secure).numbers();
        assert_eq!((numbers(true), numbers(false)), (vec![0, 1], vec![1]));
    }

    #[test]
    fn fields_are_set_added_and_removed_in_the_order_of_rules() {
        let rules = rules(vec![
            HeaderSettings {
                set: pairs(&[("cache-control", "no-store"), ("A", "1")]),
                ..all("/*")
            },
            HeaderSettings { add: pairs(&[("a", "2")]), ..all("/b/*") },
            HeaderSettings { remove: vec!["X-POWER".into(), "a".into()], ..all("/b/c") },
        ]);
        assert_eq!(
            amended(&rules, "/x", "text/plain", false),
            "X-Power: 1\r\ncache-control: no-store\r\nA: 1\r\n"
        );
        assert_eq!(
            amended(&rules, "/b/x", "text/plain", false),
            "X-Power: 1\r\ncache-control: no-store\r\nA: 1\r\na: 2\r\n"
        );
        assert_eq!(amended(&rules, "/b/c", "text/plain", false), "cache-control: no-store\r\n");
    }

    #[test]
    fn a_rule_may_be_for_a_type() {
        let of = |range: &str| HeaderSettings {
            media_type: Some(range.into()),
            set: pairs(&[("X", range)]),
            ..all("/*")
        };
        let rules = rules(vec![of("text/html"), of("text/*"), of("image/png")]);
        let added = |media_type| amended(&rules, "/", media_type, false).replace("\r\n", " ");
        assert!(added("text/html; charset=utf-8").ends_with("X: text/* "));
        assert!(added("TEXT/plain").ends_with("X: text/* "));
        assert!(!added("image/svg+xml").contains("X: "));
        assert!(!added("textual/html").contains("X: "));
    }

    #[test]
    fn an_error_is_not_kept_for_as_long_as_what_it_stands_for() {
        let rules = rules(vec![HeaderSettings {
            set: pairs(&[("Cache-Control", "max-age=9"), ("X", "1")]),
            add: pairs(&[("Expires", "0")]),
            ..all("/*")
        }]);
        let error = amended(&rules, "/", "text/html", true);
        assert_eq!(error, "Cache-Control: no-cache\r\nX-Power: 1\r\nX: 1\r\n");
    }

    #[test]
    fn what_an_answer_depends_on_stays_told() {
        let rules = rules(vec![HeaderSettings { set: pairs(&[("Vary", "Origin")]), ..all("/*") }]);
        let mut fields: Fields = [("Vary", "Accept-Encoding")].into_iter().collect();
        rules.amend(&rules.of(b"/", true), "", false, &mut fields);
        assert_eq!(text(&fields), "Vary: Accept-Encoding\r\nVary: Origin\r\n");
        assert!(removal_fault("vary").is_some());
    }

    #[test]
    fn framing_is_nobody_elses_business() {
        for name in ["Content-Length", "transfer-encoding", "CONNECTION", "Date", "Content-Type"] {
            let told = field_fault(name, "1").unwrap();
            assert!(told.starts_with(&format!("another field than {name}, which ")), "{told}");
            assert!(removal_fault(name).is_some());
        }
        assert!(field_fault("ETag", "1").is_some() && removal_fault("ETag").is_some());
        for (name, value) in
            [("", "1"), ("a b", "1"), ("a", "1\r\nb: 2"), ("a", "\0"), ("Vary", "*")]
        {
            assert!(field_fault(name, value).is_some(), "{name:?} {value:?}");
        }
        assert_eq!(field_fault("X-Frame-Options", "DENY"), None);
        assert_eq!(field_fault("X", "\u{fc}\tb"), None);
    }

    #[test]
    fn sets_of_rules_are_told_apart_and_stay_short() {
        let patterns: Vec<HeaderSettings> = (0..300)
            .map(|n| if n < 200 { all("/a*") } else { all(&format!("/a{n}*")) })
            .chain([all("/b"), all("/c")])
            .collect();
        let rules = rules(patterns);
        let paths = ["/q", "/a", "/a200", "/a299", "/b", "/c"];
        let keys = paths.map(|path| rules.of(path.as_bytes(), true).numbers());
        assert!(keys[0].is_empty());
        for (at, key) in keys.iter().enumerate() {
            assert!(key.len() <= NUMBERS_MAX + 1 && !keys[..at].contains(key), "{keys:?}");
        }
    }

    proptest! {
        #[test]
        fn lines_stay_lines(
            names in prop::collection::vec("[a-cA-C]{1,2}", 0..6),
            removed in prop::collection::vec("[a-c]{1,2}", 0..3),
        ) {
            let mut fields: Fields = names.iter().map(|name| (name, "v")).collect();
            for name in &removed {
                remove(&mut fields, name);
            }
            let expected: String = names
                .iter()
                .filter(|name| !removed.iter().any(|gone| gone.eq_ignore_ascii_case(name)))
                .map(|name| format!("{name}: v\r\n"))
                .collect();
            prop_assert_eq!(text(&fields), expected);
        }
    }
}
