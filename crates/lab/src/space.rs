//! What `flyball tune` may set: knobs with the values that are tried, and points among them.

use std::collections::BTreeMap;

use crate::definition::Value;

/// The key of the knob on which the others depend.
pub const ARCHITECTURE: &str = "arch";

/// A setting and the values that are tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// The setting's key.
    pub key: String,
    /// The values, from small to large where they have an order.
    pub values: Vec<Value>,
    /// Which of them is the default, and then is not written.
    pub default: usize,
    /// Neighbours are the next smaller and larger one; else every other value is one.
    pub ordered: bool,
    /// The architectures that honour it; all without.
    pub only: Option<Vec<String>>,
}

/// All knobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    /// Each once.
    pub knobs: Vec<Knob>,
}

/// A choice for each knob, by its place among the values. A knob that the architecture does not
/// honour is at its default, so that no server is tried twice under two names.
pub type Point = Vec<usize>;

impl Space {
    /// Everything at its default.
    pub fn default_point(&self) -> Point {
        self.knobs.iter().map(|knob| knob.default).collect()
    }

    /// The settings that are not at their defaults.
    pub fn settings(&self, point: &Point) -> BTreeMap<String, Value> {
        let chosen = self.knobs.iter().zip(point).filter(|(knob, at)| knob.default != **at);
        chosen.map(|(knob, at)| (knob.key.clone(), knob.values[*at].clone())).collect()
    }

    /// A point in words.
    pub fn label(&self, point: &Point) -> String {
        let settings = self.settings(point);
        if settings.is_empty() {
            return "default".into();
        }
        let words = settings.iter().map(|(key, value)| format!("{key}={value}"));
        words.collect::<Vec<_>>().join(" ")
    }

    /// The point with these settings, as far as there are such values.
    pub fn point_of(&self, settings: &[(&str, &str)]) -> Point {
        let level = |knob: &Knob| {
            let wanted = settings.iter().find(|(key, _)| *key == knob.key)?;
            knob.values.iter().position(|value| value.to_string() == wanted.1)
        };
        let point = self.knobs.iter().map(|knob| level(knob).unwrap_or(knob.default)).collect();
        self.canonical(point)
    }

    /// So many points of a Latin hypercube: of each knob every part of its range comes up equally
    /// often, whatever the others are. Points that come out alike are there once.
    pub fn latin_hypercube(&self, count: usize, rng: &mut fastrand::Rng) -> Vec<Point> {
        let mut points = vec![Vec::with_capacity(self.knobs.len()); count];
        for knob in &self.knobs {
            let mut strata: Vec<usize> = (0..count).collect();
            rng.shuffle(&mut strata);
            for (point, stratum) in points.iter_mut().zip(strata) {
                let at = (stratum as f64 + rng.f64()) / count as f64 * knob.values.len() as f64;
                point.push((at as usize).min(knob.values.len() - 1));
            }
        }
        let mut different: Vec<Point> = Vec::with_capacity(count);
        for point in points.into_iter().map(|point| self.canonical(point)) {
            if !different.contains(&point) {
                different.push(point);
            }
        }
        different
    }

    /// Points that differ from this one in one knob.
    pub fn neighbours(&self, point: &Point) -> Vec<Point> {
        let mut all: Vec<Point> = Vec::new();
        for (nth, knob) in self.knobs.iter().enumerate() {
            let at = point[nth];
            let levels: Vec<usize> = match knob.ordered {
                true => [at.checked_sub(1), Some(at + 1)].into_iter().flatten().collect(),
                false => (0..knob.values.len()).filter(|level| *level != at).collect(),
            };
            for level in levels.into_iter().filter(|level| *level < knob.values.len()) {
                let mut other = point.clone();
                other[nth] = level;
                let other = self.canonical(other);
                if other != *point && !all.contains(&other) {
                    all.push(other);
                }
            }
        }
        all
    }

    fn canonical(&self, mut point: Point) -> Point {
        let of_architecture = self.knobs.iter().position(|knob| knob.key == ARCHITECTURE);
        let architecture =
            of_architecture.map(|nth| self.knobs[nth].values[point[nth]].to_string());
        for (level, knob) in point.iter_mut().zip(&self.knobs) {
            let honoured = match (&knob.only, &architecture) {
                (Some(only), Some(architecture)) => only.contains(architecture),
                _ => true,
            };
            if !honoured {
                *level = knob.default;
            }
        }
        point
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Three knobs; the last is for `mt` alone.
    pub(crate) fn space() -> Space {
        let texts = |list: &[&str]| list.iter().map(|text| Value::Text((*text).into())).collect();
        let numbers = |list: &[i64]| list.iter().map(|number| Value::Whole(*number)).collect();
        let knob = |key: &str, values: Vec<Value>, default, ordered| Knob {
            key: key.into(),
            values,
            default,
            ordered,
            only: None,
        };
        let mut threads = knob("mt.threads", numbers(&[16, 64, 256]), 1, true);
        threads.only = Some(vec!["mt".into()]);
        Space {
            knobs: vec![
                knob(ARCHITECTURE, texts(&["n-copy", "mt", "sped", "uring"]), 0, false),
                knob("accept.limit", numbers(&[1, 4, 16, 64]), 2, true),
                threads,
            ],
        }
    }

    #[test]
    fn every_value_of_a_knob_comes_up_equally_often() {
        let mut free = space();
        free.knobs[2].only = None;
        let points = free.latin_hypercube(12, &mut fastrand::Rng::with_seed(3));
        for level in 0..4 {
            assert!(points.iter().filter(|point| point[0] == level).count() <= 3);
        }
        assert!(points.len() >= 10, "{points:?}");
    }

    #[test]
    fn a_knob_that_is_not_honoured_stays_at_its_default() {
        let space = space();
        let points = space.latin_hypercube(50, &mut fastrand::Rng::with_seed(1));
        assert!(points.iter().all(|point| point[0] == 1 || point[2] == 1));
        assert_eq!(space.label(&vec![2, 3, 0]), "accept.limit=64 arch=sped mt.threads=16");
        assert_eq!(space.point_of(&[("arch", "mt"), ("mt.threads", "256")]), [1, 2, 2]);
        assert_eq!(space.label(&space.default_point()), "default");
    }

    #[test]
    fn neighbours_differ_in_one_knob() {
        let space = space();
        let near = space.neighbours(&vec![1, 3, 1]);
        // Three other architectures, one smaller limit, fewer and more threads.
        assert_eq!(near.len(), 6);
        assert!(near.contains(&vec![1, 2, 1]) && near.contains(&vec![1, 3, 2]));
    }
}
