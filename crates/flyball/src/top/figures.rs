//! Numbers as people read them, in few columns.

/// A count or a rate: `0`, `7.5`, `950`, `17.4k`, `2.1M`.
pub(super) fn count(n: f64) -> String {
    match n {
        n if n >= 1e9 => format!("{:.1}G", n / 1e9),
        n if n >= 1e6 => format!("{:.1}M", n / 1e6),
        n if n >= 1e4 => format!("{:.1}k", n / 1e3),
        n if n >= 100.0 || n.fract() == 0.0 => format!("{n:.0}"),
        n => format!("{n:.1}"),
    }
}

/// A size in bytes.
pub(super) fn bytes(n: f64) -> String {
    const KIB: f64 = 1024.0;
    match n {
        n if n >= KIB * KIB * KIB => format!("{:.1} GiB", n / KIB / KIB / KIB),
        n if n >= KIB * KIB => format!("{:.1} MiB", n / KIB / KIB),
        n if n >= KIB => format!("{:.0} KiB", n / KIB),
        n => format!("{n:.0} B"),
    }
}

/// A time in nanoseconds; `-` for none.
pub(super) fn time(ns: Option<u64>) -> String {
    match ns {
        None => "-".into(),
        Some(ns) if ns < 1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        Some(ns) if ns < 1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        Some(ns) => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// A part of one, in percent; `-` for none.
pub(super) fn share(of_one: Option<f64>) -> String {
    of_one.map_or("-".into(), |share| format!("{:.1}%", share * 100.0))
}

/// How long something has run, by its two largest units.
pub(super) fn duration(ms: u64) -> String {
    let s = ms / 1_000;
    match s {
        0..60 => format!("{s} s"),
        60..3_600 => format!("{} min {} s", s / 60, s % 60),
        3_600..86_400 => format!("{} h {} min", s / 3_600, s % 3_600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_a_unit_that_fits() {
        assert_eq!(
            [0.0, 7.53, 950.4, 17_390.0, 2.1e6, 3e9].map(count).join(" "),
            "0 7.5 950 17.4k 2.1M 3.0G"
        );
        assert_eq!([12.0, 2048.0, 3_145_728.0].map(bytes).join(", "), "12 B, 2 KiB, 3.0 MiB");
        let times = [None, Some(1_280), Some(1_500_000), Some(2_000_000_000)];
        assert_eq!(times.map(time).join(", "), "-, 1.3 us, 1.5 ms, 2.0 s");
        assert_eq!([None, Some(0.987)].map(share).join(" "), "- 98.7%");
        let spans = [5_000, 65_000, 3_660_000, 90_000_000].map(duration);
        assert_eq!(spans.join(", "), "5 s, 1 min 5 s, 1 h 1 min, 1 d 1 h");
    }
}
