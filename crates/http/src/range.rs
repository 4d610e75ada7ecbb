//! Byte ranges (RFC 9110, section 14): from a `Range` field to the parts of the representation
//! that are sent, and the layout of those parts when there are several.

use std::io::Write as _;

use crate::field::Name;
use crate::head::Method;
use crate::list::elements;
use crate::random;
use crate::request::Request;

/// Most range-specs in one `Range` field, satisfiable or not, unless a setting says otherwise. A
/// field with more is ignored and the whole representation is sent, as RFC 9110, section 14.2,
/// allows against abusive sets. Clients that update a file by its changed blocks (zsync) ask for
/// some hundred at a time.
pub const RANGES_MAX: usize = 256;

/// Parts with fewer bytes than this between them are sent as one. RFC 9110, section 15.3.7.2,
/// gives about 80 bytes as what each further part costs in a multipart body.
pub const GAP_BYTES: u64 = 80;

/// Length of a multipart boundary, in bytes: the hexadecimal digits of 64 bits.
pub const BOUNDARY_BYTES: usize = 16;

/// Bytes of a representation, from the first up to but without the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset one past the last byte; above `start`.
    pub end: u64,
}

impl ByteRange {
    /// How many bytes the range covers.
    pub fn byte_count(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// What a `Range` field comes to for a representation of known length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// The field is absent or to be ignored: answer 200 with the whole representation.
    Whole,
    /// No range overlaps the representation: answer 416 with [`write_unsatisfied`].
    Unsatisfiable,
    /// Answer 206 with these parts, of which there is at least one: none is empty, and
    /// [`GAP_BYTES`] or more lie between any two. A single part is sent without a [`Multipart`],
    /// which a client that asked for one range need not understand (section 15.3.7.2).
    Parts(Vec<ByteRange>),
}

/// The ranges that a request asks for, `most` at a time, of a representation of `length` bytes.
///
/// Only GET has ranges (RFC 9110, section 14.2); `Range` is not a list field, so that one given
/// twice is ignored. Whether `If-Range` permits them is for
/// [`range_applies`](crate::conditional::range_applies) to say.
pub fn requested(request: &Request<'_>, length: u64, most: usize) -> Ranges {
    if request.method() != Method::Get {
        return Ranges::Whole;
    }
    let mut values = request.values(Name::Range);
    match (values.next(), values.next()) {
        (Some(value), None) => parse(value, length, most),
        _ => Ranges::Whole,
    }
}

/// Reads the value of a `Range` field for a representation of `length` bytes (RFC 9110, sections
/// 14.1.1, 14.1.2 and 14.2).
///
/// Ignored, and so [`Ranges::Whole`], are units other than `bytes`, malformed sets and sets of
/// more than `most`. Numbers past `u64` count as its largest value. A representation of
/// no bytes has nothing that a 206 could describe: for a suffix, or a range from its beginning,
/// the whole of it is sent, as nginx does.
///
/// Overlapping, adjacent and near ranges become one, in the place of the first of them. The order
/// is the client's (RFC 9110, section 15.3.7.2).
pub fn parse(value: &[u8], length: u64, most: usize) -> Ranges {
    let Some(set) = bytes_set(value) else { return Ranges::Whole };
    let mut parts = Vec::new();
    let mut count = 0;
    for element in elements(set).filter(|element| !element.is_empty()) {
        count += 1;
        let Some(spec) = Spec::read(element).filter(|_| count <= most) else {
            return Ranges::Whole;
        };
        parts.extend(spec.within(length));
    }
    match (count, parts.is_empty(), length) {
        (0, _, _) => Ranges::Whole,
        (_, true, _) => Ranges::Unsatisfiable,
        (_, false, 0) => Ranges::Whole,
        _ => Ranges::Parts(coalesce(parts)),
    }
}

/// The range-set of `bytes=range-set`; range units are compared without regard to case.
fn bytes_set(value: &[u8]) -> Option<&[u8]> {
    let (unit, rest) = value.split_at_checked(b"bytes".len())?;
    rest.strip_prefix(b"=").filter(|_| unit.eq_ignore_ascii_case(b"bytes"))
}

/// A range-spec (RFC 9110, section 14.1.1).
enum Spec {
    /// `first-pos "-" [ last-pos ]`, where an absent last position is the largest number.
    Int { first: u64, last: u64 },
    /// `"-" suffix-length`
    Suffix(u64),
}

impl Spec {
    /// `None` when the element is malformed, or ends before it starts.
    fn read(element: &[u8]) -> Option<Spec> {
        let dash = memchr::memchr(b'-', element)?;
        let (first, last) = (&element[..dash], &element[dash + 1..]);
        if first.is_empty() {
            return number(last).map(Spec::Suffix);
        }
        let first = number(first)?;
        let last = if last.is_empty() { u64::MAX } else { number(last)? };
        (first <= last).then_some(Spec::Int { first, last })
    }

    /// The bytes it covers; `None` when it is unsatisfiable (RFC 9110, section 14.1.2). Empty only
    /// in a representation of no bytes.
    fn within(&self, length: u64) -> Option<ByteRange> {
        match *self {
            Spec::Int { first, last } => (first < length.max(1))
                .then(|| ByteRange { start: first, end: last.saturating_add(1).min(length) }),
            Spec::Suffix(count) => {
                (count > 0).then(|| ByteRange { start: length.saturating_sub(count), end: length })
            }
        }
    }
}

/// `1*DIGIT`, the largest `u64` standing for anything above it.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let push = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add((digit - b'0').into());
    Some(text.iter().fold(0, push))
}

/// Joins the parts that overlap or are near. What is left adds up to no more than the
/// representation, however often the field repeats itself.
fn coalesce(parts: Vec<ByteRange>) -> Vec<ByteRange> {
    let mut placed: Vec<(usize, ByteRange)> = parts.into_iter().enumerate().collect();
    placed.sort_unstable_by_key(|(_, part)| part.start);
    placed.dedup_by(|(next_place, next), (place, kept)| {
        let near = next.start.saturating_sub(kept.end) < GAP_BYTES;
        if near {
            (*place, kept.end) = ((*place).min(*next_place), kept.end.max(next.end));
        }
        near
    });
    placed.sort_unstable_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, part)| part).collect()
}

/// Appends the value of `Content-Range` for one part (RFC 9110, section 14.4): `bytes 0-9/100`.
///
/// # Panics
/// In debug builds, when the range is empty, which the field cannot express.
pub fn write_content_range(range: ByteRange, length: u64, out: &mut Vec<u8>) {
    debug_assert!(range.start < range.end, "an empty range: {range:?}");
    let last = range.end.saturating_sub(1);
    append(out, format_args!("bytes {}-{last}/{length}", range.start));
}

/// Appends the value of `Content-Range` for a 416 (RFC 9110, section 15.5.17): `bytes */100`.
pub fn write_unsatisfied(length: u64, out: &mut Vec<u8>) {
    append(out, format_args!("bytes */{length}"));
}

/// The layout of a `multipart/byteranges` body (RFC 9110, section 14.6; RFC 2046, section 5.1):
/// for each part its head and then its bytes, and the closing line after the last.
///
/// The boundary follows from the seed alone, so that a body may be laid out twice alike. The seed
/// is best mixed from the entity tag and the time: a boundary that is also a line of the content
/// would cut a part short for a client that does not go by `Content-Range`.
#[derive(Clone, Debug)]
pub struct Multipart {
    boundary: [u8; BOUNDARY_BYTES],
    content_type: Box<[u8]>,
    length: u64,
    parts: Box<[ByteRange]>,
    content_length: u64,
}

impl Multipart {
    /// A layout of these parts of a representation of `length` bytes. `content_type` is the value
    /// that a 200 would carry and each part repeats; empty when there is none.
    pub fn new(
        boundary_seed: u64,
        content_type: &[u8],
        length: u64,
        parts: &[ByteRange],
    ) -> Multipart {
        let mut multipart = Multipart {
            boundary: boundary(boundary_seed),
            content_type: content_type.into(),
            length,
            parts: parts.into(),
            content_length: 0,
        };
        multipart.content_length = multipart.measure();
        multipart
    }

    /// The length is what the same code writes, so that it cannot drift from what is sent.
    fn measure(&self) -> u64 {
        let mut scratch = Vec::new();
        let mut total = 0u64;
        for (index, part) in self.parts.iter().enumerate() {
            scratch.clear();
            self.part_head(index, &mut scratch);
            total = total.saturating_add(scratch.len() as u64).saturating_add(part.byte_count());
        }
        scratch.clear();
        self.closing(&mut scratch);
        total.saturating_add(scratch.len() as u64)
    }

    /// The value of `Content-Length`: all heads, parts and the closing line, in bytes.
    pub fn content_length(&self) -> u64 {
        self.content_length
    }

    /// The parts, in the order in which they are sent.
    pub fn parts(&self) -> &[ByteRange] {
        &self.parts
    }

    /// Appends the value of `Content-Type` for the whole answer.
    pub fn write_content_type(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"multipart/byteranges; boundary=");
        out.extend_from_slice(&self.boundary);
    }

    /// Appends what comes before the bytes of the part with this index, counted from zero.
    ///
    /// # Panics
    /// In debug builds, when there is no such part; otherwise nothing is appended.
    pub fn part_head(&self, index: usize, out: &mut Vec<u8>) {
        let Some(&part) = self.parts.get(index) else {
            debug_assert!(false, "part {index} of {}", self.parts.len());
            return;
        };
        // The line end before a boundary belongs to the boundary (RFC 2046, section 5.1.1). The
        // first needs none, but zsync, for one, reads the answers only of servers that send it.
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(&self.boundary);
        if !self.content_type.is_empty() {
            out.extend_from_slice(b"\r\nContent-Type: ");
            out.extend_from_slice(&self.content_type);
        }
        out.extend_from_slice(b"\r\nContent-Range: ");
        write_content_range(part, self.length, out);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// Appends what comes after the bytes of the last part.
    pub fn closing(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(&self.boundary);
        out.extend_from_slice(b"--\r\n");
    }
}

/// Sixteen hexadecimal digits, which need no quotes as a parameter. The seed is stirred: the digits
/// of a small one would be zeros, as content may well be.
fn boundary(seed: u64) -> [u8; BOUNDARY_BYTES] {
    let bits = random::nth(seed, 1);
    std::array::from_fn(|at| b"0123456789abcdef"[(bits >> (60 - 4 * at)) as usize & 15])
}

fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to memory does not fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Head, Limits, scan};
    use proptest::prelude::*;

    fn parts(ranges: &[(u64, u64)]) -> Ranges {
        Ranges::Parts(ranges.iter().map(|&(start, end)| ByteRange { start, end }).collect())
    }

    fn check(length: u64, table: &[(&str, Ranges)]) {
        for (value, expected) in table {
            assert_eq!(
                &parse(value.as_bytes(), length, RANGES_MAX),
                expected,
                "{value} of {length}"
            );
        }
    }

    fn asked(method: &str, fields: &str) -> Ranges {
        let text = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut head = Head::default();
        scan::parse_head(text.as_bytes(), &Limits::default(), &mut head).expect(&text);
        requested(&head.request(text.as_bytes()), 1000, RANGES_MAX)
    }

    #[test]
    fn single_ranges_are_cut_to_the_representation() {
        check(
            1000,
            &[
                ("bytes=0-0", parts(&[(0, 1)])),
                ("bytes=0-499", parts(&[(0, 500)])),
                ("bytes=500-", parts(&[(500, 1000)])),
                ("bytes=0-", parts(&[(0, 1000)])),
                ("bytes=999-5000", parts(&[(999, 1000)])),
                ("bytes=-1", parts(&[(999, 1000)])),
                ("bytes=-1000", parts(&[(0, 1000)])),
                ("bytes=-1001", parts(&[(0, 1000)])),
                ("bytes=007-0008", parts(&[(7, 9)])),
                ("BYTES=1-2", parts(&[(1, 3)])),
                ("bytes=1000-", Ranges::Unsatisfiable),
                ("bytes=1000-1000", Ranges::Unsatisfiable),
                ("bytes=-0", Ranges::Unsatisfiable),
            ],
        );
    }

    #[test]
    fn a_malformed_field_is_ignored_even_when_other_ranges_in_it_are_valid() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes= , ,",
            "bytes=-",
            "bytes=2-1",
            "bytes=1",
            "bytes=a-b",
            "bytes=1-2-3",
            "bytes=--1",
            "bytes=1 -2",
            "bytes=1- 2",
            "bytes=+1-2",
            "bytes=0x1-2",
            "bytes=0-1;2-3",
            "bytes=0-1,x",
            "bytes=0-1,5-4",
            "bytes =0-1",
            "bytes:0-1",
            "octets=0-1",
            "byte=0-1",
            "bytess=0-1",
            "0-1",
        ] {
            assert_eq!(parse(value.as_bytes(), 1000, RANGES_MAX), Ranges::Whole, "{value}");
        }
        assert_eq!(parse(b"bytes=0-1\0", 1000, RANGES_MAX), Ranges::Whole);
        assert_eq!(parse(b"bytes=0-\xb9", 1000, RANGES_MAX), Ranges::Whole);
    }

    #[test]
    fn white_space_and_empty_elements_between_ranges_are_passed_over() {
        check(
            1000,
            &[
                ("bytes=0-0 ,\t500-500", parts(&[(0, 1), (500, 501)])),
                ("bytes=,,0-0,, ,500-500,", parts(&[(0, 1), (500, 501)])),
                ("bytes= 0-0 ", parts(&[(0, 1)])),
            ],
        );
    }

    #[test]
    fn numbers_past_64_bits_count_as_larger_than_any_length() {
        let huge = "99999999999999999999999999";
        let max = u64::MAX;
        for (value, length, expected) in [
            (format!("bytes=5-{huge}"), 1000, parts(&[(5, 1000)])),
            (format!("bytes=-{huge}"), 1000, parts(&[(0, 1000)])),
            (format!("bytes={huge}-"), 1000, Ranges::Unsatisfiable),
            (format!("bytes={huge}-{huge}"), max, Ranges::Unsatisfiable),
            (format!("bytes=0-{max}"), max, parts(&[(0, max)])),
            (format!("bytes={}-", max - 1), max, parts(&[(max - 1, max)])),
            (format!("bytes={huge}-5"), 1000, Ranges::Whole),
        ] {
            assert_eq!(
                parse(value.as_bytes(), length, RANGES_MAX),
                expected,
                "{value} of {length}"
            );
        }
    }

    #[test]
    fn ranges_past_the_end_are_dropped_from_a_set() {
        check(
            1000,
            &[
                ("bytes=5000-6000,0-9", parts(&[(0, 10)])),
                ("bytes=0-9,-0", parts(&[(0, 10)])),
                ("bytes=1000-,2000-3000,-0", Ranges::Unsatisfiable),
            ],
        );
    }

    #[test]
    fn a_representation_of_no_bytes_goes_whole_for_a_suffix_or_what_begins_where_it_does() {
        check(
            0,
            &[
                ("bytes=0-", Ranges::Whole),
                ("bytes=0-0", Ranges::Whole),
                ("bytes=1-", Ranges::Unsatisfiable),
                ("bytes=-0", Ranges::Unsatisfiable),
                ("bytes=-1", Ranges::Whole),
                ("bytes=7-9,-5", Ranges::Whole),
            ],
        );
    }

    #[test]
    fn overlapping_adjacent_and_near_ranges_become_one() {
        check(
            1000,
            &[
                ("bytes=0-99,50-149", parts(&[(0, 150)])),
                ("bytes=0-99,100-199", parts(&[(0, 200)])),
                ("bytes=100-199,0-99", parts(&[(0, 200)])),
                ("bytes=0-999,10-19", parts(&[(0, 1000)])),
                ("bytes=0-,0-,-1000,5-", parts(&[(0, 1000)])),
                ("bytes=0-9,89-99", parts(&[(0, 100)])),
                ("bytes=0-9,90-99", parts(&[(0, 10), (90, 100)])),
                ("bytes=0-9,500-509,60-69", parts(&[(0, 70), (500, 510)])),
            ],
        );
    }

    #[test]
    fn parts_come_in_the_order_they_were_asked_for_in() {
        check(
            1000,
            &[
                ("bytes=-1,0-0,500-509", parts(&[(999, 1000), (0, 1), (500, 510)])),
                ("bytes=900-909,500-509,0-9,505-599", parts(&[(900, 910), (500, 600), (0, 10)])),
                ("bytes=505-599,900-909,500-509", parts(&[(500, 600), (900, 910)])),
            ],
        );
    }

    #[test]
    fn a_set_larger_than_the_limit_is_answered_with_the_whole() {
        const MOST: usize = 100;
        let set = |count: usize| {
            let specs: Vec<String> = (0..count).map(|n| format!("{0}-{0}", n * 1000)).collect();
            format!("bytes={}", specs.join(","))
        };
        let Ranges::Parts(parts) = parse(set(MOST).as_bytes(), 1 << 20, MOST) else {
            panic!("a set at the limit is served");
        };
        assert_eq!(parts.len(), MOST);
        assert_eq!(parse(set(MOST + 1).as_bytes(), 1 << 20, MOST), Ranges::Whole);
        // Ranges past the end count too: a set of them costs as much to read.
        assert_eq!(parse(set(MOST + 1).as_bytes(), 1, MOST), Ranges::Whole);
        let empty = format!("bytes=0-0{}", ",".repeat(4 * MOST));
        assert_eq!(
            parse(empty.as_bytes(), 1, MOST),
            Ranges::Parts(vec![ByteRange { start: 0, end: 1 }])
        );
    }

    #[test]
    fn only_a_get_with_one_range_field_has_ranges() {
        assert_eq!(asked("GET", "Range: bytes=1-2\r\n"), parts(&[(1, 3)]));
        assert_eq!(asked("GET", "range:bytes=2000-\r\n"), Ranges::Unsatisfiable);
        assert_eq!(asked("GET", ""), Ranges::Whole);
        assert_eq!(asked("GET", "Range: bytes=1-2\r\nRange: bytes=4-5\r\n"), Ranges::Whole);
        for method in ["HEAD", "POST", "PUT", "OPTIONS", "BREW"] {
            assert_eq!(asked(method, "Range: bytes=1-2\r\n"), Ranges::Whole, "{method}");
        }
    }

    #[test]
    fn content_range_names_the_last_byte_and_not_the_end() {
        let mut out = Vec::new();
        write_content_range(ByteRange { start: 0, end: 10 }, 100, &mut out);
        assert_eq!(out, b"bytes 0-9/100");
        out.clear();
        write_content_range(ByteRange { start: 0, end: u64::MAX }, u64::MAX, &mut out);
        assert_eq!(out, b"bytes 0-18446744073709551614/18446744073709551615");
        out.clear();
        write_unsatisfied(100, &mut out);
        assert_eq!(out, b"bytes */100");
    }

    /// The body that the layout describes, over the bytes of the representation.
    fn body(multipart: &Multipart, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for (index, part) in multipart.parts().iter().enumerate() {
            multipart.part_head(index, &mut out);
            out.extend_from_slice(&content[part.start as usize..part.end as usize]);
        }
        multipart.closing(&mut out);
        out
    }

    #[test]
    fn a_multipart_body_is_laid_out_as_the_standard_shows() {
        let ranges = [ByteRange { start: 0, end: 2 }, ByteRange { start: 4, end: 5 }];
        let multipart = Multipart::new(7, b"text/plain", 5, &ranges);
        let mut value = Vec::new();
        multipart.write_content_type(&mut value);
        let value = String::from_utf8(value).unwrap();
        let boundary = value.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let expected = format!(
            "\r\n--{boundary}\r\n\
             Content-Type: text/plain\r\nContent-Range: bytes 0-1/5\r\n\r\nab\r\n\
             --{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 4-4/5\r\n\r\ne\r\n\
             --{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8(body(&multipart, b"abcde")).unwrap(), expected);
    }

    #[test]
    fn parts_of_an_untyped_representation_have_no_content_type() {
        let multipart = Multipart::new(7, b"", 9, &[ByteRange { start: 3, end: 9 }]);
        let mut head = Vec::new();
        multipart.part_head(0, &mut head);
        let text = String::from_utf8(head).unwrap();
        assert!(text.ends_with("\r\nContent-Range: bytes 3-8/9\r\n\r\n"), "{text}");
        assert!(!text.contains("Content-Type"), "{text}");
    }

    #[test]
    fn the_boundary_follows_from_the_seed_and_needs_no_quotes() {
        assert_eq!(boundary(1), boundary(1));
        let mut seen: Vec<_> = (0..1000).map(boundary).collect();
        assert!(seen.iter().flatten().all(u8::is_ascii_hexdigit));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 1000);
    }

    /// A spec as it is written, with the bytes below `length` that it asks for.
    fn specs(length: u64) -> impl Strategy<Value = (String, std::ops::Range<u64>)> {
        let near = 0..=length + 200;
        prop_oneof![
            (near.clone(), 0..300u64).prop_map(move |(first, more)| {
                (format!("{first}-{}", first + more), first..(first + more + 1).min(length))
            }),
            near.clone().prop_map(move |first| (format!("{first}-"), first..length)),
            near.prop_map(move |count| {
                (format!("-{count}"), length.saturating_sub(count)..length)
            }),
        ]
    }

    fn sets() -> impl Strategy<Value = (u64, Vec<(String, std::ops::Range<u64>)>)> {
        (1u64..3000).prop_flat_map(|length| {
            (Just(length), prop::collection::vec(specs(length), 1..=RANGES_MAX.min(12)))
        })
    }

    fn are_proper(parts: &[ByteRange], length: u64) -> bool {
        let mut ascending = parts.to_vec();
        ascending.sort_unstable_by_key(|part| part.start);
        !parts.is_empty()
            && parts.iter().all(|part| part.start < part.end && part.end <= length)
            && ascending.windows(2).all(|pair| pair[0].end + GAP_BYTES <= pair[1].start)
    }

    proptest! {
        #[test]
        fn parts_cover_what_was_asked_for_and_only_short_gaps_beside_it(
            (length, set) in sets(),
            separator in "[ \t]{0,2},[ \t,]{0,3}",
        ) {
            let texts: Vec<&str> = set.iter().map(|(text, _)| &text[..]).collect();
            let mut wanted = vec![false; length as usize];
            for (_, range) in &set {
                range.clone().for_each(|at| wanted[at as usize] = true);
            }
            let value = format!("bytes={}", texts.join(&separator));
            match parse(value.as_bytes(), length, RANGES_MAX) {
                Ranges::Parts(parts) => {
                    prop_assert!(are_proper(&parts, length), "{parts:?}");
                    for part in &parts {
                        let inside = &wanted[part.start as usize..part.end as usize];
                        prop_assert!(inside[0] && inside[inside.len() - 1], "{part:?}");
                        let gap = inside.split(|&w| w).map(<[bool]>::len).max().unwrap_or(0);
                        prop_assert!((gap as u64) < GAP_BYTES, "a gap of {gap} in {part:?}");
                        wanted[part.start as usize..part.end as usize].fill(false);
                    }
                    prop_assert!(!wanted.contains(&true), "{parts:?} leaves bytes out");
                }
                Ranges::Unsatisfiable => prop_assert!(!wanted.contains(&true)),
                Ranges::Whole => prop_assert!(false, "a well-formed set was ignored"),
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic_and_never_yield_improper_parts(
            tail in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..60),
                "[0-9,\\- ]{0,60}".prop_map(String::into_bytes),
            ],
            with_unit in any::<bool>(),
            length in prop_oneof![0u64..100, any::<u64>()],
        ) {
            let value = if with_unit { [&b"bytes="[..], &tail].concat() } else { tail };
            if let Ranges::Parts(parts) = parse(&value, length, RANGES_MAX) {
                prop_assert!(are_proper(&parts, length), "{parts:?}");
            }
        }

        #[test]
        fn the_length_of_a_multipart_body_is_known_before_it_is_written(
            seed in any::<u64>(),
            content_type in "[a-z/;= ]{0,40}",
            (length, set) in sets(),
        ) {
            let texts: Vec<&str> = set.iter().map(|(text, _)| &text[..]).collect();
            let ranges = parse(format!("bytes={}", texts.join(",")).as_bytes(), length, RANGES_MAX);
            if let Ranges::Parts(parts) = ranges {
                let multipart = Multipart::new(seed, content_type.as_bytes(), length, &parts);
                let written = body(&multipart, &vec![b'x'; length as usize]);
                prop_assert_eq!(multipart.content_length(), written.len() as u64);
            }
        }
    }
}
