//! A campaign whose runs are void from the first on by one cause, which others would have too.

use std::collections::BTreeSet;

use crate::run::is_by_others;

/// Void runs, from the first on, after which a campaign gives up.
const RUNS: usize = 10;

/// The runs of a campaign as long as none has counted.
#[derive(Debug, Default)]
pub(super) struct FirstRuns {
    made: usize,
    /// What all of them were void by, without its numbers.
    causes: BTreeSet<String>,
}

impl FirstRuns {
    /// A run was made, which is void by these causes, or counts if there are none; why the campaign
    /// gives up, if it does. One that others disturbed says nothing of the next.
    pub(super) fn made(&mut self, void: &[String]) -> Option<String> {
        if void.iter().any(|why| is_by_others(why)) {
            return None;
        }
        let causes: BTreeSet<String> = void.iter().map(|why| without_numbers(why)).collect();
        self.causes = match self.made {
            0 => causes,
            _ => self.causes.intersection(&causes).cloned().collect(),
        };
        self.made += 1;
        if self.made != RUNS {
            return None;
        }
        let cause = void.iter().find(|why| self.causes.contains(&without_numbers(why)))?;
        Some(format!("gives up: the first {RUNS} runs are void by the same cause: {cause}"))
    }
}

/// Two causes are one if they differ in their numbers alone.
pub(super) fn without_numbers(why: &str) -> String {
    let mut text: String = why.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    while text.contains("00") || text.contains("0.0") {
        text = text.replace("00", "0").replace("0.0", "0");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(nth: usize) -> String {
        format!("one in a hundred sessions began {}.{nth} ms late", nth * 7)
    }

    #[test]
    fn ten_runs_that_are_void_by_one_cause_are_enough_and_nine_are_not() {
        let mut first = FirstRuns::default();
        for nth in 0..9 {
            assert_eq!(first.made(&[late(nth), format!("other {}", 'a')]), None);
        }
        let why = first.made(&[late(123)]).unwrap();
        assert!(why.contains("the first 10 runs are void by the same cause: one in"), "{why}");
        assert!(why.ends_with("began 861.123 ms late"), "{why}");
        assert_eq!(first.made(&[late(1)]), None, "it is said once");
    }

    #[test]
    fn a_run_that_others_disturbed_says_nothing_of_the_next() {
        let mut first = FirstRuns::default();
        let disturbed = |nth| [late(nth), format!("other programs took {nth} % of a processor")];
        for nth in 0..9 {
            assert_eq!((first.made(&disturbed(nth)), first.made(&[late(nth)])), (None, None));
        }
        assert!(first.made(&[late(9)]).is_some());
    }

    #[test]
    fn a_run_that_counts_or_is_void_by_something_else_gives_hope() {
        for other in [vec![], vec!["the generator was busy for 94 % of the time".to_owned()]] {
            let mut first = FirstRuns::default();
            for nth in 0..30 {
                let void = if nth == 4 { other.clone() } else { vec![late(nth)] };
                assert_eq!(first.made(&void), None);
            }
        }
    }
}
