//! The nearest known name to one that is not known.

/// Longest name compared, in bytes: nobody mistypes a longer one, and the work is quadratic.
const NAME_BYTES_MAX: usize = 64;

/// The known name that the user most likely meant, if any is near enough.
///
/// A dotted key is also found by its last part, when only one key ends in it: `eager-read` is near
/// `accept.eager-read`. Otherwise one edit in three letters is allowed.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let known: Vec<&str> = known.into_iter().collect();
    let mut same_end = known.iter().filter(|candidate| last_part(candidate) == last_part(name));
    if let (Some(only), None) = (same_end.next(), same_end.next()) {
        return Some(only);
    }
    let name = comparable(name);
    known
        .into_iter()
        .map(|candidate| (distance(&name, &comparable(candidate)), candidate))
        .filter(|&(edits, candidate)| edits <= (candidate.len() / 3).max(1))
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, candidate)| candidate)
}

fn last_part(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Letters that people confuse on purpose count as the same.
fn comparable(name: &str) -> Vec<char> {
    name.chars()
        .map(|letter| if letter == '_' { '-' } else { letter.to_ascii_lowercase() })
        .collect()
}

/// Edits from one name to the other: insertions, deletions, replacements and swaps of neighbours
/// (the optimal string alignment distance).
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (i, &a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &b) in to.iter().enumerate() {
            let mut edits = (above[j] + usize::from(a != b)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a == to[j - 1] && from[i - 1] == b {
                edits = edits.min(before[j - 1] + 1);
            }
            row.push(edits);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 6] =
        ["accept.limit", "accept.eager-read", "limit.head", "timeout.head", "workers", "arch"];

    #[test]
    fn a_slip_of_the_finger_is_recognised() {
        for (name, meant) in [
            ("accept.limt", "accept.limit"),
            ("accpet.limit", "accept.limit"),
            ("worker", "workers"),
            ("wrokers", "workers"),
            ("Workers", "workers"),
            ("accept.eager_read", "accept.eager-read"),
            ("eager-read", "accept.eager-read"),
            ("limits.head", "limit.head"),
            ("arhc", "arch"),
        ] {
            assert_eq!(nearest(name, KEYS), Some(meant), "{name}");
        }
    }

    #[test]
    fn what_is_near_nothing_gets_no_suggestion() {
        for name in ["banana", "", "head", "x", &"arch".repeat(17)] {
            assert_eq!(nearest(name, KEYS), None, "{name}");
        }
    }

    #[test]
    fn the_distance_counts_a_swap_as_one_edit() {
        let letters = |text: &str| text.chars().collect::<Vec<_>>();
        for (from, to, edits) in
            [("", "", 0), ("abc", "", 3), ("", "abc", 3), ("ab", "ba", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(&letters(from), &letters(to)), edits, "{from} to {to}");
        }
    }
}
