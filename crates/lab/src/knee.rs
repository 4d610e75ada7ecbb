//! The knee of a server: the rate up to which it keeps up with what arrives; and, where that takes
//! too long, a peak that is near it.

/// The share of a rate that may stay unanswered when a run ends: what is under way is no backlog.
const SHORTFALL_MAX: f64 = 0.01;

/// The knee is known when the least rate that was too much is at most so many times the largest
/// that was not.
const BRACKET_MAX: f64 = 1.02;

/// Doublings, or halvings, from the first rate before nothing is found.
const DOUBLINGS_MAX: u32 = 24;

/// Times the peak at which it is looked whether more arrives openly than a closed loop asked for,
/// and how often it is looked again at what was found.
const RISE: f64 = 1.5;
const RISES_MAX: u64 = 3;

/// From so many times the peak on, what was served there is the peak.
const RISEN_MIN: f64 = 1.05;

/// What is served when more arrives than a peak that a few connections in a closed loop reached:
/// they may have waited for each other. `served_per_s` is the nth run, at a rate. Blocks for them.
///
/// # Errors
/// Those of a run.
pub fn risen<E>(
    mut peak: f64,
    served_per_s: &mut dyn FnMut(u64, f64) -> Result<f64, E>,
) -> Result<f64, E> {
    for nth in 0..RISES_MAX {
        let served = served_per_s(nth, RISE * peak)?;
        if served < RISEN_MIN * peak {
            break;
        }
        peak = served;
    }
    Ok(peak)
}

/// Finds the knee from a rate that is near it, by halving the interval between one that is kept up
/// with and one that is not. `good_per_s` is a run at a rate: what was answered well in a second.
/// A rate is too much when it is so twice: a machine that was away for a moment proves nothing.
/// `None` when there is no end, in either direction. Blocks for the runs.
///
/// # Errors
/// Those of a run.
pub fn find<E>(
    first: f64,
    good_per_s: &mut dyn FnMut(f64) -> Result<f64, E>,
) -> Result<Option<f64>, E> {
    let mut keeps_up = |rate: f64| -> Result<bool, E> {
        let enough = rate * (1.0 - SHORTFALL_MAX);
        Ok(good_per_s(rate)? >= enough || good_per_s(rate)? >= enough)
    };
    let (mut low, mut high) = (first, first);
    let up = keeps_up(first)?;
    for doubling in 0..=DOUBLINGS_MAX {
        if doubling == DOUBLINGS_MAX {
            return Ok(None);
        }
        // Steps grow: a first rate that is near is left by little.
        let step = 1.05_f64.powf(2f64.powi(doubling.min(4) as i32));
        if up {
            (low, high) = (high, high * step);
            if !keeps_up(high)? {
                break;
            }
        } else {
            (low, high) = (low / step, low);
            if keeps_up(low)? {
                break;
            }
        }
    }
    while high / low > BRACKET_MAX {
        let middle = (low * high).sqrt();
        match keeps_up(middle)? {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok(Some((low * high).sqrt()))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// A server that stays at its peak past it, and loses a run now and then.
    fn found(knee: f64, first: f64) -> Option<f64> {
        let mut runs = 0;
        let mut server = |rate: f64| {
            runs += 1;
            let away = if runs % 5 == 0 { 0.5 } else { 1.0 };
            Ok::<f64, Infallible>(rate.min(knee) * away)
        };
        find(first, &mut server).unwrap()
    }

    #[test]
    fn a_known_knee_is_found_from_wherever_the_search_begins() {
        for first in [100.0, 900.0, 1_000.0, 1_100.0, 9_000.0] {
            let knee = found(1_000.0, first).unwrap();
            assert!((970.0..=1_030.0).contains(&knee), "{knee} from {first}");
        }
    }

    /// Answers in a second of a run of ten, on a clock of its own: requests come at this rate, and
    /// the server answers one after the other. One in ten takes it ten times as long.
    fn queued(knee: f64, rate: f64, seed: &mut u64) -> f64 {
        let (seconds, usual_s) = (10.0, 1.0 / knee / 1.9);
        let mut free_s: f64 = 0.0;
        let mut good = 0.0;
        for nth in 0..(rate * seconds) as u32 {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let takes_long = *seed >> 32 < u64::from(u32::MAX / 10);
            let service_s = if takes_long { usual_s * 10.0 } else { usual_s };
            free_s = free_s.max(f64::from(nth) / rate) + service_s;
            good += f64::from(u8::from(free_s < seconds));
        }
        good / seconds
    }

    #[test]
    fn a_knee_is_found_within_five_percent_where_service_times_differ() {
        let mut seed = 7;
        for first in [100.0, 900.0, 1_000.0, 1_100.0, 9_000.0] {
            let mut run = |rate| Ok::<f64, Infallible>(queued(1_000.0, rate, &mut seed));
            let knee = find(first, &mut run).unwrap().unwrap();
            assert!((950.0..=1_050.0).contains(&knee), "{knee} from {first}");
        }
    }

    #[test]
    fn a_peak_rises_to_what_is_served_when_more_arrives() {
        let risen = |peak: f64, could: f64| {
            risen(peak, &mut |_, rate| Ok::<f64, Infallible>(rate.min(could))).unwrap()
        };
        assert_eq!(risen(900.0, 1_000.0), 1_000.0);
        assert_eq!(risen(500.0, 1_000.0), 1_000.0);
        assert_eq!(risen(1_000.0, 1_020.0), 1_000.0);
        // It ends also where nothing does.
        assert_eq!(risen(100.0, f64::INFINITY), 337.5);
    }

    #[test]
    fn what_never_or_always_keeps_up_has_no_knee() {
        assert_eq!(found(0.0, 100.0), None);
        assert_eq!(found(f64::INFINITY, 100.0), None);
    }
}
