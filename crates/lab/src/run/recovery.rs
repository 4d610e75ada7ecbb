//! How long it takes until a server is again what it was before its load rose.

use serde_json::Value;

use crate::generator::{Load, Report};

/// The share of what was answered well before that has to be so again, and for how many seconds in
/// a row.
const RECOVERED_SHARE: f64 = 0.95;
const RECOVERED_S: usize = 5;

/// Seconds from the last change of the rate until goodput is what it was before the first one, and
/// stays so for five; all that are left of the run where that does not come. Nothing of a load that
/// does not change, or of a run that has no whole second before or too few after it.
pub(super) fn seconds(load: &Load, report: &Report) -> Option<f64> {
    let (first, last) = (load.steps.first()?, load.steps.last()?);
    let (normal, over) = (first.seconds.floor() as usize, (load.seconds - last.seconds).ceil());
    let warm = load.warmup.ceil() as usize;
    let mut good: Vec<f64> =
        report.0.get("good_by_second")?.as_array()?.iter().map(number).collect();
    // Seconds in which nothing came are not listed at the end.
    good.resize(load.seconds.floor() as usize, 0.0);
    let before = good.get(warm..normal).filter(|before| !before.is_empty())?;
    let needed = RECOVERED_SHARE * before.iter().sum::<f64>() / before.len() as f64;
    let after = good.get(over as usize..).filter(|after| after.len() >= RECOVERED_S)?;
    let stays = |window: &[f64]| window.iter().all(|good| *good >= needed);
    let at = after.windows(RECOVERED_S).position(stays);
    Some(at.unwrap_or(after.len()) as f64)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::definition::{Step, Varies};

    fn load() -> Load {
        let steps = [(4.0, 1.0), (2.0, 9.0), (10.0, 1.0)];
        Load {
            varies: Varies::Rate,
            amount: 100.0,
            steps: steps.map(|(seconds, times)| Step { seconds, times }).into(),
            seconds: 16.0,
            warmup: 1.0,
            seed: 1,
            verify: false,
        }
    }

    /// The seconds after the warm-up and before the rise have 100 good replies.
    fn recovered(after: &[u32]) -> Option<f64> {
        let good = [&[7, 100, 101, 99, 300, 300], after].concat();
        seconds(&load(), &Report(json!({ "good_by_second": good })))
    }

    #[test]
    fn recovery_is_when_goodput_stays() {
        assert_eq!(recovered(&[100; 10]), Some(0.0));
        assert_eq!(recovered(&[10, 94, 95, 100, 100, 100, 100, 0, 0, 0]), Some(2.0));
        // Once is not for good.
        assert_eq!(recovered(&[100, 100, 100, 100, 10, 99, 99, 99, 99, 99]), Some(5.0));
        assert_eq!(recovered(&[100, 100, 100]), Some(10.0), "and then nothing came");
        assert_eq!(recovered(&[]), Some(10.0));
    }

    #[test]
    fn a_load_that_does_not_change_has_none() {
        let report = Report(json!({ "good_by_second": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1] }));
        assert_eq!(seconds(&Load { steps: Vec::new(), ..load() }, &report), None);
        assert_eq!(seconds(&load(), &Report(json!({}))), None);
        let mut short = Load { seconds: 8.0, ..load() };
        short.steps[2].seconds = 2.0;
        assert_eq!(seconds(&short, &report), None, "two seconds are left");
    }
}
