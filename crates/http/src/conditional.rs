//! Conditional requests: whether a request still applies to the representation that was selected
//! for it (RFC 9110, section 13). Nothing here allocates.

use crate::date::parse_date;
use crate::field::{Name, trim};
use crate::head::Method;
use crate::request::Request;

/// The fields that make a request conditional or partial. `!request.has_any(CONDITIONAL)` tells
/// that neither this module nor [`crate::range`] has anything to say about the request.
pub const CONDITIONAL: u64 = PRECONDITIONS | Name::IfRange.bit() | Name::Range.bit();

/// How old a modification time is before it counts as a strong validator, in seconds.
const STRONG_AFTER_S: u64 = 60;

/// The fields that [`evaluate`] looks at.
const PRECONDITIONS: u64 = Name::IfMatch.bit()
    | Name::IfNoneMatch.bit()
    | Name::IfModifiedSince.bit()
    | Name::IfUnmodifiedSince.bit();

/// The validators of the selected representation (RFC 9110, section 8.8).
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// The strong entity tag with its quotes; empty when there is none, and then nothing but `*`
    /// matches.
    pub etag: &'a [u8],
    /// The time of the last modification, in seconds since 1970: what `Last-Modified` shows.
    pub last_modified: u64,
}

/// What the preconditions of a request come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They hold, or there are none: perform the method.
    Proceed,
    /// Answer 304: the client has this representation.
    NotModified,
    /// Answer 412.
    Failed,
}

/// Evaluates the preconditions in the order of precedence of RFC 9110, section 13.2.2.
///
/// To be called for a representation that exists and whose answer without preconditions would be
/// a 2xx (section 13.2.1). CONNECT, OPTIONS and TRACE select no representation, so that they
/// have no preconditions. `If-Range` is left to [`range_applies`].
pub fn evaluate(request: &Request<'_>, validators: &Validators<'_>) -> Verdict {
    let method = request.method();
    if !request.has_any(PRECONDITIONS)
        || matches!(method, Method::Connect | Method::Options | Method::Trace)
    {
        return Verdict::Proceed;
    }
    // Steps 1 and 2: If-Unmodified-Since counts only without If-Match.
    let unchanged = if request.has_any(Name::IfMatch.bit()) {
        lists(request.values(Name::IfMatch), |tag| strong_match(tag, validators.etag))
    } else {
        single_date(request.values(Name::IfUnmodifiedSince))
            .is_none_or(|date| validators.last_modified <= date)
    };
    if !unchanged {
        return Verdict::Failed;
    }
    // Steps 3 and 4: If-Modified-Since counts only without If-None-Match, for GET and HEAD.
    let reads = matches!(method, Method::Get | Method::Head);
    if request.has_any(Name::IfNoneMatch.bit()) {
        let listed =
            lists(request.values(Name::IfNoneMatch), |tag| weak_match(tag, validators.etag));
        return match (listed, reads) {
            (false, _) => Verdict::Proceed,
            (true, true) => Verdict::NotModified,
            (true, false) => Verdict::Failed,
        };
    }
    let current = single_date(request.values(Name::IfModifiedSince))
        .is_some_and(|date| validators.last_modified <= date);
    if reads && current { Verdict::NotModified } else { Verdict::Proceed }
}

/// Whether `Range` is to be honoured as far as `If-Range` is concerned (RFC 9110, sections 13.1.5
/// and 14.2): there is none, or it holds one validator that matches by strong comparison.
///
/// `now_unix` is in seconds since 1970. A date must be the modification time exactly, and be strong
/// (section 8.8.2.2), which it is a minute later: a file that changes twice within a second keeps
/// its date, and a client that has a part of one version would join it with one of the other. What
/// was sent while that second lasted is left to the client, which may put a date into `If-Range`
/// only when the `Date` of its copy was later than that date.
pub fn range_applies(request: &Request<'_>, validators: &Validators<'_>, now_unix: u64) -> bool {
    !request.has_any(Name::IfRange.bit())
        || if_range_holds(request.values(Name::IfRange), validators, now_unix)
}

fn if_range_holds<'v>(
    values: impl Iterator<Item = &'v [u8]>,
    validators: &Validators<'_>,
    now_unix: u64,
) -> bool {
    match single(values) {
        Some(tag @ ([b'"', ..] | [b'W', b'/', ..])) => strong_match(tag, validators.etag),
        Some(date) => {
            parse_date(date) == Some(validators.last_modified)
                && now_unix.saturating_sub(validators.last_modified) >= STRONG_AFTER_S
        }
        None => false,
    }
}

/// Whether `"*" / #entity-tag` over all lines of a field names a tag that `matches` (RFC 9110,
/// sections 13.1.1 and 13.1.2). Malformed elements match nothing. A `*` beside other elements is
/// malformed as well: to believe it could let a guarded change through.
fn lists<'v>(values: impl Iterator<Item = &'v [u8]>, matches: impl Fn(&'v [u8]) -> bool) -> bool {
    let (mut count, mut star) = (0u32, false);
    for element in values.flat_map(elements) {
        if matches(element) {
            return true;
        }
        count = count.saturating_add(1);
        star |= element == b"*";
    }
    star && count == 1
}

/// The non-empty elements of a list (RFC 9110, section 5.6.1), cut at the commas that are not
/// within quotes. An entity tag knows no escapes, so that every quote opens or closes one.
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    let comma = move |&byte: &u8| {
        quoted ^= byte == b'"';
        byte == b',' && !quoted
    };
    value.split(comma).map(trim).filter(|element| !element.is_empty())
}

/// RFC 9110, section 8.8.3.2: both are strong and equal. Our tag is well-formed, so that an
/// element that equals it is well-formed too.
fn strong_match(tag: &[u8], etag: &[u8]) -> bool {
    tag == etag && !tag.starts_with(b"W/")
}

/// RFC 9110, section 8.8.3.2: equal but for being weak.
fn weak_match(tag: &[u8], etag: &[u8]) -> bool {
    let opaque = opaque(tag);
    !opaque.is_empty() && opaque == self::opaque(etag)
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// The date of a field that may occur once; `None`, which is to ignore the field, when it is not
/// a date or one of several (RFC 9110, sections 13.1.3 and 13.1.4).
fn single_date<'v>(values: impl Iterator<Item = &'v [u8]>) -> Option<u64> {
    single(values).and_then(parse_date)
}

fn single<'v>(mut values: impl Iterator<Item = &'v [u8]>) -> Option<&'v [u8]> {
    let value = values.next()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::format_date;
    use crate::{Head, Limits, scan};
    use proptest::prelude::*;

    const MODIFIED: u64 = 784_111_777;
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const OURS: Validators<'static> = Validators { etag: b"\"a,b\"", last_modified: MODIFIED };

    fn with_request<T>(method: &str, fields: &[&str], test: impl Fn(&Request<'_>) -> T) -> T {
        let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        let text = format!("{method} / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let mut head = Head::default();
        scan::parse_head(text.as_bytes(), &Limits::default(), &mut head).expect(&text);
        test(&head.request(text.as_bytes()))
    }

    fn verdict(method: &str, fields: &[&str]) -> Verdict {
        with_request(method, fields, |request| evaluate(request, &OURS))
    }

    fn applies(if_range: &[&str], now: u64) -> bool {
        with_request("GET", if_range, |request| range_applies(request, &OURS, now))
    }

    #[test]
    fn every_conditional_field_is_in_the_set_and_no_other() {
        for field in [
            "If-Match: *",
            "If-None-Match: *",
            "If-Modified-Since: x",
            "If-Unmodified-Since: x",
            "If-Range: x",
            "Range: x",
        ] {
            assert!(with_request("GET", &[field], |r| r.has_any(CONDITIONAL)), "{field}");
        }
        let plain = ["Accept: */*", "User-Agent: x", "Referer: x", "Connection: close"];
        assert!(!with_request("GET", &plain, |r| r.has_any(CONDITIONAL)));
    }

    #[test]
    fn a_request_without_preconditions_proceeds() {
        assert_eq!(verdict("GET", &[]), Verdict::Proceed);
        assert_eq!(verdict("GET", &["Range: bytes=0-", "If-Range: \"no\""]), Verdict::Proceed);
    }

    #[test]
    fn if_match_compares_strongly() {
        for (value, expected) in [
            ("\"a,b\"", Verdict::Proceed),
            ("\"x\", \"a,b\"", Verdict::Proceed),
            ("*", Verdict::Proceed),
            ("W/\"a,b\"", Verdict::Failed),
            ("\"a\", \"b\"", Verdict::Failed),
            ("a,b", Verdict::Failed),
            ("", Verdict::Failed),
            ("\"x\", *", Verdict::Failed),
        ] {
            for method in ["GET", "HEAD", "PUT", "DELETE"] {
                assert_eq!(verdict(method, &[&format!("If-Match: {value}")]), expected, "{value}");
            }
        }
    }

    #[test]
    fn if_none_match_compares_weakly_and_fails_what_does_not_read() {
        for (value, listed) in [
            ("\"a,b\"", true),
            ("W/\"a,b\"", true),
            ("\"x\",,\t W/\"a,b\" ,", true),
            ("*", true),
            (",*,", true),
            ("w/\"a,b\"", false),
            ("W/W/\"a,b\"", false),
            ("\"x\"", false),
            ("", false),
            ("\"x\", *", false),
        ] {
            let field = format!("If-None-Match: {value}");
            let pick = |yes| if listed { yes } else { Verdict::Proceed };
            assert_eq!(verdict("GET", &[&field]), pick(Verdict::NotModified), "{value}");
            assert_eq!(verdict("HEAD", &[&field]), pick(Verdict::NotModified), "{value}");
            assert_eq!(verdict("PUT", &[&field]), pick(Verdict::Failed), "{value}");
            assert_eq!(verdict("POST", &[&field]), pick(Verdict::Failed), "{value}");
        }
    }

    #[test]
    fn malformed_elements_match_nothing_and_hide_nothing_that_is_well_formed() {
        for (value, listed) in [
            ("bare, \"a,b\"", true),
            ("\"a,b\"x, \"a,b\"", true),
            ("\"a,b\"x", false),
            ("x\"a,b\"", false),
            ("\"a,b", false),
            ("\"a b\", \"a,b\"", true),
            ("\"x\" \"a,b\"", false),
            ("W/, \"a,b\"", true),
        ] {
            let expected = if listed { Verdict::NotModified } else { Verdict::Proceed };
            assert_eq!(verdict("GET", &[&format!("If-None-Match: {value}")]), expected, "{value}");
        }
    }

    #[test]
    fn a_list_may_be_spread_over_several_lines() {
        let lines = ["If-None-Match: \"x\"", "Accept: */*", "If-None-Match: \"a,b\""];
        assert_eq!(verdict("GET", &lines), Verdict::NotModified);
        assert_eq!(verdict("GET", &["If-Match: \"x\"", "If-Match: \"a,b\""]), Verdict::Proceed);
        assert_eq!(verdict("GET", &["If-Match: *", "If-Match: \"x\""]), Verdict::Failed);
        assert_eq!(verdict("GET", &["If-Match: \"a", "If-Match: b\""]), Verdict::Failed);
    }

    #[test]
    fn a_representation_without_a_tag_is_matched_by_the_star_alone() {
        let bare = Validators { etag: b"", last_modified: MODIFIED };
        for (value, expected) in [
            ("*", Verdict::NotModified),
            ("W/", Verdict::Proceed),
            ("\"\"", Verdict::Proceed),
            ("", Verdict::Proceed),
        ] {
            let field = format!("If-None-Match: {value}");
            let seen = with_request("GET", &[&field], |request| evaluate(request, &bare));
            assert_eq!(seen, expected, "{value}");
        }
    }

    #[test]
    fn a_weak_tag_of_our_own_is_never_equal_strongly() {
        let weak = Validators { etag: b"W/\"a\"", last_modified: MODIFIED };
        let seen = |field: &str| with_request("GET", &[field], |r| evaluate(r, &weak));
        assert_eq!(seen("If-Match: W/\"a\""), Verdict::Failed);
        assert_eq!(seen("If-None-Match: \"a\""), Verdict::NotModified);
        assert!(!with_request("GET", &["If-Range: W/\"a\""], |r| {
            range_applies(r, &weak, MODIFIED + 100)
        }));
    }

    #[test]
    fn dates_are_compared_to_the_second() {
        for (date, since, unmodified) in [
            (BEFORE, Verdict::Proceed, Verdict::Failed),
            (SAME, Verdict::NotModified, Verdict::Proceed),
            (AFTER, Verdict::NotModified, Verdict::Proceed),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Verdict::NotModified, Verdict::Proceed),
        ] {
            assert_eq!(verdict("GET", &[&format!("If-Modified-Since: {date}")]), since);
            assert_eq!(verdict("HEAD", &[&format!("If-Modified-Since: {date}")]), since);
            for method in ["GET", "HEAD", "PUT"] {
                let field = format!("If-Unmodified-Since: {date}");
                assert_eq!(verdict(method, &[&field]), unmodified, "{method} {date}");
            }
        }
    }

    #[test]
    fn dates_that_are_invalid_or_given_twice_are_ignored() {
        for date in ["yesterday", "", "0", "Sun, 06 Nov 1994 08:49:37 GMT, x"] {
            let since = format!("If-Modified-Since: {date}");
            let unmodified = format!("If-Unmodified-Since: {date}");
            assert_eq!(verdict("GET", &[&since]), Verdict::Proceed, "{date}");
            assert_eq!(verdict("GET", &[&unmodified]), Verdict::Proceed, "{date}");
        }
        let since = format!("If-Modified-Since: {AFTER}");
        assert_eq!(verdict("GET", &[&since, &since]), Verdict::Proceed);
        let unmodified = format!("If-Unmodified-Since: {BEFORE}");
        assert_eq!(verdict("GET", &[&unmodified, &unmodified]), Verdict::Proceed);
    }

    #[test]
    fn if_modified_since_is_for_get_and_head_only() {
        for method in ["PUT", "POST", "DELETE", "PATCH", "BREW"] {
            assert_eq!(
                verdict(method, &[&format!("If-Modified-Since: {AFTER}")]),
                Verdict::Proceed
            );
        }
    }

    #[test]
    fn tags_take_precedence_over_dates() {
        let (since, until) =
            (format!("If-Modified-Since: {AFTER}"), format!("If-Unmodified-Since: {BEFORE}"));
        assert_eq!(verdict("GET", &["If-None-Match: \"x\"", &since]), Verdict::Proceed);
        assert_eq!(verdict("GET", &["If-None-Match:", &since]), Verdict::Proceed);
        assert_eq!(verdict("GET", &["If-Match: \"a,b\"", &until]), Verdict::Proceed);
        let stale = format!("If-Modified-Since: {BEFORE}");
        assert_eq!(verdict("GET", &["If-None-Match: \"a,b\"", &stale]), Verdict::NotModified);
    }

    #[test]
    fn a_failed_guard_is_told_before_not_modified() {
        let until = format!("If-Unmodified-Since: {BEFORE}");
        assert_eq!(verdict("GET", &["If-None-Match: *", "If-Match: \"x\""]), Verdict::Failed);
        assert_eq!(verdict("GET", &["If-None-Match: *", &until]), Verdict::Failed);
        assert_eq!(verdict("GET", &["If-None-Match: *", "If-Match: *"]), Verdict::NotModified);
    }

    #[test]
    fn methods_that_select_nothing_have_no_preconditions() {
        for method in ["OPTIONS", "TRACE"] {
            assert_eq!(verdict(method, &["If-Match: \"x\""]), Verdict::Proceed, "{method}");
            assert_eq!(verdict(method, &["If-None-Match: *"]), Verdict::Proceed, "{method}");
        }
    }

    #[test]
    fn if_range_compares_tags_strongly() {
        for (value, expected) in [
            ("\"a,b\"", true),
            ("W/\"a,b\"", false),
            ("\"a\"", false),
            ("\"a,b\", \"a,b\"", false),
            ("*", false),
            ("a,b", false),
            ("", false),
        ] {
            assert_eq!(applies(&[&format!("If-Range: {value}")], MODIFIED), expected, "{value}");
        }
        assert!(applies(&[], MODIFIED));
        assert!(!applies(&["If-Range: \"a,b\"", "If-Range: \"a,b\""], MODIFIED));
    }

    #[test]
    fn if_range_takes_a_date_only_when_it_is_equal_and_a_minute_old() {
        let same = format!("If-Range: {SAME}");
        assert!(!applies(&[&same], MODIFIED - 1));
        assert!(!applies(&[&same], MODIFIED));
        assert!(!applies(&[&same], MODIFIED + STRONG_AFTER_S - 1));
        assert!(applies(&[&same], MODIFIED + STRONG_AFTER_S));
        assert!(applies(&[&same], u64::MAX));
        for date in [BEFORE, AFTER, "yesterday"] {
            assert!(!applies(&[&format!("If-Range: {date}")], MODIFIED + 100), "{date}");
        }
        assert!(!applies(&[&same, &same], MODIFIED + 100));
    }

    /// A tag over an alphabet so small that equal ones are common.
    fn tags() -> impl Strategy<Value = (bool, String)> {
        (any::<bool>(), "[ab,*W/\\\\]{0,3}")
    }

    fn written((weak, opaque): &(bool, String)) -> String {
        format!("{}\"{opaque}\"", if *weak { "W/" } else { "" })
    }

    proptest! {
        #[test]
        fn a_well_formed_list_matches_exactly_when_a_member_does(
            lines in prop::collection::vec(prop::collection::vec(tags(), 0..4), 0..4),
            separator in "[ \t]{0,2},[ \t,]{0,3}",
            own in "[ab,*W/\\\\]{0,3}",
        ) {
            let texts: Vec<String> = lines
                .iter()
                .map(|line| line.iter().map(written).collect::<Vec<_>>().join(&separator))
                .collect();
            let values = || texts.iter().map(|text| text.as_bytes());
            let etag = format!("\"{own}\"").into_bytes();
            let mut members = lines.iter().flatten();
            let weakly = members.clone().any(|(_, opaque)| *opaque == own);
            let strongly = members.any(|(weak, opaque)| !weak && *opaque == own);
            prop_assert_eq!(lists(values(), |tag| weak_match(tag, &etag)), weakly);
            prop_assert_eq!(lists(values(), |tag| strong_match(tag, &etag)), strongly);
        }

        #[test]
        fn arbitrary_bytes_never_panic_and_strong_implies_weak(
            values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..4),
            now in any::<u64>(),
        ) {
            let lines = || values.iter().map(|value| &value[..]);
            let strong = lists(lines(), |tag| strong_match(tag, OURS.etag));
            prop_assert!(!strong || lists(lines(), |tag| weak_match(tag, OURS.etag)));
            let held = if_range_holds(lines(), &OURS, now);
            prop_assert!(!held || values.len() == 1);
            single_date(lines());
        }

        #[test]
        fn a_date_in_if_range_holds_only_for_its_own_second(
            modified in 0u64..4_000_000_000,
            off in -2i64..=2,
            age in 0u64..120,
        ) {
            let ours = Validators { etag: b"", last_modified: modified };
            let date = modified.saturating_add_signed(off);
            let value = format_date(date);
            let held = if_range_holds([&value[..]].into_iter(), &ours, modified + age);
            prop_assert_eq!(held, date == modified && age >= STRONG_AFTER_S);
        }
    }
}
