//! Lines of a log that say nothing that could be asked for.

use crate::units::counted;

/// How many of them are told one by one.
const TOLD_MAX: usize = 5;

/// Counts lines that are passed over, or refuses them.
#[derive(Clone, Debug, Default)]
pub struct Skipped {
    is_strict: bool,
    count: u64,
    told: Vec<String>,
}

impl Skipped {
    /// Refuses the first one where it `is_strict`.
    pub fn new(is_strict: bool) -> Skipped {
        Skipped { is_strict, ..Skipped::default() }
    }

    /// Passes over what stands at a place such as `line 7`.
    ///
    /// # Errors
    /// Where it is strict: the place, and what is wrong there.
    pub fn skip(&mut self, place: &str, why: &str) -> Result<(), String> {
        let told = format!("{place}: {why}");
        if self.is_strict {
            return Err(told);
        }
        self.count += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(told);
        }
        Ok(())
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What a report says of them; `None` when there were none.
    pub fn note(&self) -> Option<String> {
        let more = if self.count > self.told.len() as u64 { "; ..." } else { "" };
        let told = self.told.join("; ");
        let were = if self.count == 1 { "was" } else { "were" };
        let lines = counted(self.count, "line");
        (self.count > 0).then(|| format!("{lines} {were} skipped: {told}{more}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_and_the_first_few_are_named() {
        let mut skipped = Skipped::new(false);
        assert_eq!(skipped.note(), None);
        for line in 1..=7 {
            skipped.skip(&format!("line {line}"), "no time").unwrap();
        }
        let note = skipped.note().unwrap();
        assert!(note.starts_with("7 lines were skipped: line 1: no time; line 2"), "{note}");
        assert!(note.ends_with("line 5: no time; ..."), "{note}");
        let refused = Skipped::new(true).skip("line 3", "no time");
        assert_eq!(refused, Err("line 3: no time".into()));
    }
}
