//! A campaign whose runs are void from the first on by one cause, which others would have too.

use std::collections::BTreeSet;

/// Void runs, from the first on, after which a campaign gives up.
const RUNS: usize = 10;

/// How causes begin that others bring, who may end at any moment.
const OF_OTHERS: [&str; 3] =
    ["other programs took", "sockets of other programs", "the machine beneath took"];

/// The runs of a campaign as long as none has counted.
#[derive(Debug, Default)]
pub(super) struct FirstRuns {
    made: usize,
    /// What all of them were void by, without its numbers.
    causes: BTreeSet<String>,
}

impl FirstRuns {
    /// A run was made, which is void by these causes, or counts if there are none; why the campaign
    /// gives up, if it does.
    pub(super) fn made(&mut self, void: &[String]) -> Option<String> {
        let is_own = |why: &&String| !OF_OTHERS.iter().any(|start| why.starts_with(start));
        let causes: BTreeSet<String> =
            void.iter().filter(is_own).map(|why| without_numbers(why)).collect();
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
fn without_numbers(why: &str) -> String {
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
    fn what_others_bring_may_end_at_any_moment() {
        let mut first = FirstRuns::default();
        for nth in 0..30 {
            let void = OF_OTHERS.map(|start| format!("{start} {nth} %"));
            assert_eq!(first.made(&void), None);
        }
    }

    #[test]
    fn a_run_that_counts_or_is_void_by_something_else_gives_hope() {
        for other in [vec![], vec!["the machine beneath took 3.5 %".to_owned()]] {
            let mut first = FirstRuns::default();
            for nth in 0..30 {
                let void = if nth == 4 { other.clone() } else { vec![late(nth)] };
                assert_eq!(first.made(&void), None);
            }
        }
    }
}
