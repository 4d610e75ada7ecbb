//! A curve drawn: by characters, and as SVG.

use std::fmt::Write as _;

use super::Curve;

/// Columns and rows of the plot of characters.
const COLUMNS: usize = 64;
const ROWS: usize = 16;

/// Size of the drawing and its margins, in pixels.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 60.0;

/// Marks on each axis.
const TICKS: u32 = 5;

/// The largest offered load and goodput, for the axes.
fn extent(curve: &Curve) -> (f64, f64) {
    let offered = curve.points.iter().map(|point| point.offered).fold(0.0, f64::max);
    let goodput = curve.points.iter().map(|point| point.goodput).fold(0.0, f64::max);
    (offered.max(1e-9), (goodput * 1.05).max(1e-9))
}

/// Goodput against offered load by characters: `*` is measured, `.` would be every request.
pub fn terminal(curve: &Curve) -> String {
    let (x_max, y_max) = extent(curve);
    let mut cells = vec![[b' '; COLUMNS]; ROWS];
    let column = |x: f64| ((x / x_max * (COLUMNS - 1) as f64) as usize).min(COLUMNS - 1);
    let row = |y: f64| ROWS - 1 - ((y / y_max * (ROWS - 1) as f64) as usize).min(ROWS - 1);
    let offered = (0..COLUMNS).map(|at| at as f64 / (COLUMNS - 1) as f64 * x_max);
    for (at, offered) in offered.enumerate().filter(|(_, offered)| *offered <= y_max) {
        cells[row(offered)][at] = b'.';
    }
    for point in &curve.points {
        cells[row(point.goodput)][column(point.offered)] = b'*';
    }
    let mut out = String::new();
    for (at, line) in cells.iter().enumerate() {
        let y = y_max * (ROWS - 1 - at) as f64 / (ROWS - 1) as f64;
        let label = if at % 5 == 0 { format!("{y:>11.0}") } else { " ".repeat(11) };
        let _ = writeln!(out, "{label} |{}", String::from_utf8_lossy(line).trim_end());
    }
    let _ = writeln!(out, "{:>11} +{}", "", "-".repeat(COLUMNS));
    let _ = writeln!(out, "{:>13}0{:>width$.0}/s offered", "", x_max, width = COLUMNS - 1);
    out
}

/// Goodput against offered load as SVG.
pub fn svg(curve: &Curve, title: &str) -> String {
    let (x_max, y_max) = extent(curve);
    let x = |value: f64| LEFT + value / x_max * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - value / y_max * (HEIGHT - TOP - BOTTOM);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"18\">{}</text>\n",
        escaped(title)
    );
    for tick in 0..=TICKS {
        let share = f64::from(tick) / f64::from(TICKS);
        let (at_x, at_y) = (x(x_max * share), y(y_max * share));
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {at_y:.1}H{right}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.0}</text>\
             <text x=\"{at_x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0}</text>",
            LEFT - 6.0,
            at_y + 4.0,
            y_max * share,
            bottom + 18.0,
            x_max * share
        );
    }
    let ideal = x_max.min(y_max);
    let _ = writeln!(
        out,
        "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"#999\" stroke-dasharray=\"4 4\"/>",
        x(0.0),
        y(0.0),
        x(ideal),
        y(ideal)
    );
    let line: Vec<String> = curve
        .points
        .iter()
        .map(|point| format!("{:.1},{:.1}", x(point.offered), y(point.goodput)))
        .collect();
    let line = line.join(" ");
    let _ = writeln!(out, "<polyline points=\"{line}\" fill=\"none\" stroke=\"#06c\"/>");
    for point in &curve.points {
        let fill = if point.client_limits.is_empty() { "#06c" } else { "#fff" };
        let _ = writeln!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" stroke=\"#06c\" fill=\"{fill}\"/>",
            x(point.offered),
            y(point.goodput)
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">offered requests/s (hollow: the \
         client was the limit)</text>\n\
         <text x=\"16\" y=\"{:.1}\" transform=\"rotate(-90 16 {:.1})\" \
         text-anchor=\"middle\">good replies/s</text>\n</svg>",
        WIDTH / 2.0,
        HEIGHT - 16.0,
        HEIGHT / 2.0,
        HEIGHT / 2.0
    );
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peak::Point;

    fn curve() -> Curve {
        let point = |offered, goodput| Point { offered, goodput, ..Point::default() };
        let points = vec![point(100.0, 100.0), point(200.0, 150.0), point(450.0, 120.0)];
        Curve { points, stopped: None }
    }

    #[test]
    fn every_point_is_drawn_at_its_place() {
        let plot = terminal(&curve());
        assert_eq!(plot.matches('*').count(), 3, "{plot}");
        let first = plot.lines().find(|line| line.contains('*')).unwrap();
        let at = first.find('*').unwrap() - first.find('|').unwrap() - 1;
        assert_eq!(at, 28, "the peak, at 200 of 450: {plot}");
    }

    #[test]
    fn the_drawing_is_well_formed_and_shows_every_point() {
        let drawn = svg(&curve(), "http://a/?b&c<d");
        assert_eq!(drawn.matches("<circle").count(), 3);
        assert!(drawn.contains("http://a/?b&amp;c&lt;d"), "{drawn}");
        assert!(drawn.starts_with("<svg") && drawn.trim_end().ends_with("</svg>"));
    }
}
