//! Whether an expression fits any path at all: a rule that fits none closes nothing, and its author
//! does not see that.
//!
//! The expression's automaton and that of canonical paths take the same bytes, step by step, until
//! a match is found or all pairs of states were seen. Nothing is known of an expression that is too
//! large for that, or that asks for the words of Unicode: it counts as one that fits.

use std::collections::HashSet;

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, util::start};
use regex_syntax::ast::{Ast, Span, parse::Parser};

/// Most pairs of states that are looked at.
const PAIRS_MAX: usize = 20_000;

/// Most alternatives of an expression that are looked at, each by itself.
const ALTERNATIVES_MAX: usize = 100;

/// Most bytes that the automaton of an expression may take.
const AUTOMATON_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Where one is in a canonical path: it begins with a slash, and no slash follows another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Begin,
    BehindSlash,
    InName,
}

impl Place {
    fn after(self, byte: u8) -> Option<Place> {
        match (self, byte) {
            (Place::Begin | Place::InName, b'/') => Some(Place::BehindSlash),
            // A query is no part of a path. One with an encoded `?` is hardly what is meant.
            (Place::Begin, _) | (Place::BehindSlash, b'/') | (_, b'?') => None,
            _ => Some(Place::InName),
        }
    }

    fn may_end(self) -> bool {
        self != Place::Begin
    }
}

/// The part of an expression that fits no path: all of it, or one of its alternatives, also of
/// those within a group, in the place of all of them. One that is nothing but a place, such as `^`
/// in `(^|/)`, is written for other places than the beginning of a path, and left alone.
pub(super) fn part_without_paths(expression: &str) -> Option<&str> {
    if fits_any(expression) == Some(false) {
        return Some(expression);
    }
    let ast = Parser::new().parse(expression).ok()?;
    Alternatives { expression, left: ALTERNATIVES_MAX }.without_paths(&ast, "", "")
}

/// The alternatives of an expression, each to be looked at in the place of all that it is one of.
struct Alternatives<'a> {
    expression: &'a str,
    /// How many more are looked at.
    left: usize,
}

impl<'a> Alternatives<'a> {
    /// The first in this part that fits no path between what stands before and behind the part.
    fn without_paths(&mut self, part: &Ast, before: &str, after: &str) -> Option<&'a str> {
        let within: &[Ast] = match part {
            Ast::Alternation(all) => {
                return all.asts.iter().find_map(|one| self.alternative(one, before, after));
            }
            Ast::Concat(all) => &all.asts,
            Ast::Group(group) => std::slice::from_ref(&*group.ast),
            Ast::Repetition(repeated) => std::slice::from_ref(&*repeated.ast),
            _ => &[],
        };
        let (begin, end) = (part.span().start.offset, part.span().end.offset);
        within.iter().find_map(|one| {
            let Span { start, end: one_ends } = *one.span();
            let before = [before, &self.expression[begin..start.offset]].concat();
            let after = [&self.expression[one_ends.offset..end], after].concat();
            self.without_paths(one, &before, &after)
        })
    }

    fn alternative(&mut self, one: &Ast, before: &str, after: &str) -> Option<&'a str> {
        let is_place = matches!(one, Ast::Empty(_) | Ast::Assertion(_));
        if is_place || self.left == 0 {
            return None;
        }
        self.left -= 1;
        let text = &self.expression[one.span().start.offset..one.span().end.offset];
        match fits_any(&[before, text, after].concat()) {
            Some(false) => Some(text),
            _ => self.without_paths(one, before, after),
        }
    }
}

/// Whether there is a canonical path that it fits; `None` when that is not known.
fn fits_any(expression: &str) -> Option<bool> {
    let config = DFA::config()
        .cache_capacity(AUTOMATON_BYTES_MAX)
        .minimum_cache_clear_count(Some(0))
        .unicode_word_boundary(true);
    let size = thompson::Config::new().nfa_size_limit(Some(super::REGEX_BYTES_MAX));
    let automaton = DFA::builder().configure(config).thompson(size).build(expression).ok()?;
    let mut cache = automaton.create_cache();
    let begin = start::Config::new().anchored(Anchored::No);
    let begin = (automaton.start_state(&mut cache, &begin).ok()?, Place::Begin);
    let (mut seen, mut open) = (HashSet::from([begin]), vec![begin]);
    while let Some((state, place)) = open.pop() {
        if is_found_at_end(&automaton, &mut cache, state, place)? {
            return Some(true);
        }
        for byte in 0..=u8::MAX {
            let Some(place) = place.after(byte) else { continue };
            let state = automaton.next_state(&mut cache, state, byte).ok()?;
            if state.is_match() {
                return Some(true);
            }
            if state.is_quit() || seen.len() > PAIRS_MAX {
                return None;
            }
            if !state.is_dead() && seen.insert((state, place)) {
                open.push((state, place));
            }
        }
    }
    Some(false)
}

/// Whether a path that ends here is one that the expression is found in.
fn is_found_at_end(
    automaton: &DFA,
    cache: &mut Cache,
    state: LazyStateID,
    place: Place,
) -> Option<bool> {
    let at_end = automaton.next_eoi_state(cache, state).ok()?;
    Some(place.may_end() && at_end.is_match())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_close_nothing_are_told_by_their_part() {
        for all in [
            "^(private|admin)/",
            "(?i)^private",
            "(^private|^x/)",
            r"\Aprivate",
            " ^/private",
            "^/private/s.txt$ ",
            r"/\.php$/",
            "^/a(/)(/)b",
            r"\.php\?",
            r"^/x\?id=1",
            "^//secret",
            "",
        ] {
            let expected = (!all.is_empty()).then_some(all);
            assert_eq!(part_without_paths(all), expected);
        }
        assert_eq!(part_without_paths("^/private|^x/"), Some("^x/"));
        assert_eq!(part_without_paths("^/private|^/x/|//"), Some("//"));
        for (within, part) in [
            ("(^/admin|^private)/", "^private"),
            ("^(/admin|private)/", "private"),
            ("^/(admin|/private)/", "/private"),
            (r"(\?id|\.csv)", r"\?id"),
            (r"^/a/((b|/c)+|d)$", "/c"),
        ] {
            assert_eq!(part_without_paths(within), Some(part), "{within}");
        }
    }

    #[test]
    fn expressions_that_fit_a_path_are_left_alone() {
        for some in [
            "^/",
            "/$",
            "^/$",
            r"(^|/)\.git(/|$)",
            r"\.php$",
            r"\.(php|phtml)($|/)",
            "^/?x?",
            "^(/a|/b)/c",
            r"(^|/)(a|b|)\.(c|d)?(/|$)",
            r"\bsecret\b",
            "(?i)^/private",
            "(?x) ^/ private",
            "/gr\u{fc}n",
            "[^a-z/]",
            "^/[^/]+/[^/]+$",
            r"^/(\w{1,40})$",
        ] {
            assert_eq!(part_without_paths(some), None, "{some}");
        }
    }
}
