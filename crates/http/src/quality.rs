//! Lists of what a client would rather have, each element with a weight: `Accept`,
//! `Accept-Encoding` and `Accept-Language` (RFC 9110, section 12.4.2). Nothing here allocates, and
//! the time is linear in the length of the field.

use crate::field::trim;
use crate::list::Split;

/// The weight of an element that names none, in thousandths; also the greatest.
pub const WEIGHT_MAX: u16 = 1_000;

/// One element of such a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weighed<'a> {
    /// What stands in front of the weight, parameters included: `gzip`, `text/html;level=1`.
    pub value: &'a [u8],
    /// The weight in thousandths; 0 means not acceptable.
    pub weight: u16,
}

/// The elements of one line of such a field, in order. Empty elements are passed over, and so are
/// those whose weight is malformed: whatever was meant, it was not understood.
///
/// What follows a weight (the extensions of RFC 7231, which RFC 9110 removed) is ignored. A name
/// that occurs more than once, or on several lines, is the caller's to judge.
pub fn weighed(value: &[u8]) -> impl Iterator<Item = Weighed<'_>> {
    Split::new(value, b',', true).map(trim).filter_map(element)
}

fn element(element: &[u8]) -> Option<Weighed<'_>> {
    let mut parts = Split::new(element, b';', true);
    let name = parts.next()?;
    if trim(name).is_empty() {
        return None;
    }
    let mut len = name.len();
    for parameter in parts {
        if let [b'q' | b'Q', b'=', weight @ ..] = trim(parameter) {
            return Some(Weighed { value: trim(&element[..len]), weight: parse_weight(weight)? });
        }
        len += 1 + parameter.len();
    }
    Some(Weighed { value: element, weight: WEIGHT_MAX })
}

/// `0`, `1`, `0.5`: a number from 0 to 1 in thousandths. More than the three decimals of the
/// grammar are cut off, since there are clients that send them; what is above 0 stays above it.
fn parse_weight(text: &[u8]) -> Option<u16> {
    let (whole, decimals) = match text {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] => (whole, decimals),
        _ => return None,
    };
    if !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let is_zero = decimals.iter().all(|&digit| digit == b'0');
    match whole {
        b'1' if is_zero => Some(WEIGHT_MAX),
        b'0' if is_zero => Some(0),
        b'0' => {
            let digit = |at: usize| decimals.get(at).map_or(0, |&digit| u16::from(digit - b'0'));
            Some((100 * digit(0) + 10 * digit(1) + digit(2)).max(1))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seen(value: &str) -> Vec<(&str, u16)> {
        weighed(value.as_bytes())
            .map(|item| (std::str::from_utf8(item.value).unwrap(), item.weight))
            .collect()
    }

    #[test]
    fn elements_come_in_order_with_their_weights() {
        assert_eq!(seen("gzip, br"), [("gzip", 1000), ("br", 1000)]);
        assert_eq!(seen("gzip;q=0.5,br;q=1.0 , *;q=0"), [("gzip", 500), ("br", 1000), ("*", 0)]);
        assert_eq!(seen("de-AT ;  Q=0.75"), [("de-AT", 750)]);
        assert_eq!(seen(""), []);
        assert_eq!(seen(" , ,\t,"), []);
    }

    #[test]
    fn parameters_in_front_of_a_weight_belong_to_the_value() {
        assert_eq!(
            seen("text/html;level=1;q=0.4;ext=1, text/*;q=0.3, */*"),
            [("text/html;level=1", 400), ("text/*", 300), ("*/*", 1000)]
        );
        assert_eq!(seen("text/plain; format=flowed"), [("text/plain; format=flowed", 1000)]);
        assert_eq!(seen("a/b;x=\",;q=0\";q=0.1, c/d"), [("a/b;x=\",;q=0\"", 100), ("c/d", 1000)]);
        assert_eq!(seen("a/b;x=\"\\\",\";q=0.1"), [("a/b;x=\"\\\",\"", 100)]);
    }

    #[test]
    fn a_weight_is_a_number_from_0_to_1() {
        for (text, weight) in [
            ("0", 0),
            ("0.", 0),
            ("0.000", 0),
            ("0.001", 1),
            ("0.0001", 1),
            ("0.3333333", 333),
            ("0.9", 900),
            ("1", 1000),
            ("1.", 1000),
            ("1.000", 1000),
        ] {
            assert_eq!(seen(&format!("x;q={text}")), [("x", weight)], "{text}");
        }
    }

    #[test]
    fn an_element_with_a_malformed_weight_is_passed_over() {
        for text in ["", ".5", "2", "1.1", "-1", "0.5x", "\"0.5\"", "0 .5", "1e0", "00.5"] {
            let line = format!("x;q={text}, y");
            assert!(!seen(&line).iter().any(|(value, _)| *value == "x"), "{text}");
            assert!(seen(&line).contains(&("y", 1000)), "{text}");
        }
        assert_eq!(seen(";q=0.5, ;, y"), [("y", 1000)]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_weights_within_bounds(
            bytes: Vec<u8>,
            like in "[gq=;,.01 \"\\\\]*",
        ) {
            for value in [&bytes[..], like.as_bytes()] {
                for item in weighed(value) {
                    prop_assert!(item.weight <= WEIGHT_MAX);
                    prop_assert!(!item.value.is_empty());
                }
            }
        }
    }
}
