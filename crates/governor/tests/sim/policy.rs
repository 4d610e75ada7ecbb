//! How a simulated server is set: a static setting, or governed with some of the layers.

use flyball_governor::{Bounds, GateBounds, Mode};

/// Which layers of the governor have an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layers {
    /// Phases bounded in time, and the pull rule.
    pub(crate) phases: bool,
    /// The accept queue in time.
    pub(crate) backlog: bool,
    /// The dead are discarded, and late work where the socket is shared.
    pub(crate) discard: bool,
    /// Work has a gate.
    pub(crate) gate: bool,
    /// Of those that wait at it the newest is next.
    pub(crate) newest: bool,
    /// The ladder.
    pub(crate) ladder: bool,
}

impl Layers {
    pub(crate) const ALL: Layers = Layers {
        phases: true,
        backlog: true,
        discard: true,
        gate: true,
        newest: true,
        ladder: true,
    };

    /// All but one, each with its name.
    pub(crate) fn ablations() -> [(&'static str, Layers); 6] {
        let all = Layers::ALL;
        [
            ("phases", Layers { phases: false, ..all }),
            ("backlog", Layers { backlog: false, ..all }),
            ("discard", Layers { discard: false, ..all }),
            ("gate", Layers { gate: false, ..all }),
            ("newest", Layers { newest: false, ..all }),
            ("ladder", Layers { ladder: false, ..all }),
        ]
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// The accept-limit; `None` for none.
    pub(crate) accept: Option<u32>,
    /// The accept queue's configured length.
    pub(crate) backlog: u32,
    /// Threads beside a loop, or helpers.
    pub(crate) places: u32,
    pub(crate) layers: Option<Layers>,
    pub(crate) bounds: Bounds,
    pub(crate) gate: GateBounds,
}

impl Policy {
    /// The server's defaults, without a governor.
    pub(crate) fn default_static() -> Policy {
        Policy {
            accept: Some(16),
            backlog: 4_096,
            places: 8,
            layers: None,
            bounds: Bounds { mode: Mode::Off, ..Bounds::default() },
            gate: GateBounds { mode: Mode::Off, ..GateBounds::default() },
        }
    }

    pub(crate) fn governed() -> Policy {
        Policy::with(Layers::ALL)
    }

    pub(crate) fn with(layers: Layers) -> Policy {
        let mode = if layers.gate { Mode::On } else { Mode::Off };
        Policy {
            layers: Some(layers),
            bounds: Bounds::default(),
            gate: GateBounds { mode, ..GateBounds::default() },
            ..Policy::default_static()
        }
    }

    /// The static settings that a careful administrator would try.
    pub(crate) fn statics(with_places: bool) -> Vec<Policy> {
        let mut all = Vec::new();
        let places: &[u32] = if with_places { &[1, 8] } else { &[8] };
        for accept in [Some(1), None] {
            for backlog in [16, 128, 4_096] {
                for &places in places {
                    all.push(Policy { accept, backlog, places, ..Policy::default_static() });
                }
            }
        }
        all
    }

    pub(crate) fn told(&self) -> String {
        match self.layers {
            Some(_) => "governed".into(),
            None => {
                let accept = self.accept.map_or("inf".into(), |limit| limit.to_string());
                format!("accept {accept}, backlog {}, places {}", self.backlog, self.places)
            }
        }
    }
}
