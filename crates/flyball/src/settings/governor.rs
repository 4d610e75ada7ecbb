//! The table of settings of what keeps a server steady when there is more to do than it can.

use flyball_arch::GovernorMode;

use super::kind::Kind;
use super::table::{Setting, Task, UsedBy, Word};

/// Longest phase of a turn: a loop that is away for longer serves no one.
const PHASE_MS_MAX: u64 = 10_000;

/// Longest time in a queue that is worth a bound.
const QUEUE_MS_MAX: u64 = 60_000;

/// The settings.
pub(super) const ROWS: &[Setting] = &[
    Setting {
        key: "governor.mode",
        task: Task::Overload,
        kind: Kind::OneOf {
            names: &[
                Word { name: "off", set: |s| s.governor.mode = GovernorMode::Off },
                Word { name: "watch", set: |s| s.governor.mode = GovernorMode::Watch },
                Word { name: "on", set: |s| s.governor.mode = GovernorMode::On },
            ],
        },
        default: Some("off"),
        doc: "Whether the server governs itself when there is more to do than it can",
        more: "`watch` decides, and changes nothing. See docs/governor.md.",
        source: "S0 sections 6.2, 7 and 8 (M44, M46, M47)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "governor.target",
        task: Task::Overload,
        kind: Kind::Duration {
            least_ms: 1,
            most_ms: QUEUE_MS_MAX,
            set: |s, ms| s.governor.target_ms = Some(ms),
        },
        word: Some(Word { name: "auto", set: |s| s.governor.target_ms = None }),
        default: Some("auto"),
        doc: "Wait of the oldest connection from which on a loop is overloaded",
        more: "A loop is overloaded if no connection that it accepts in a tenth of a second has \
               waited for less. `auto` is 8 ms, two ticks of the kernel's clock, or four times as \
               long as the loop works on a connection, if that is longer.",
        source: "CoDel (Nichols and Jacobson, ACM Queue 2012)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "governor.queue",
        task: Task::Overload,
        kind: Kind::Duration {
            least_ms: 1,
            most_ms: QUEUE_MS_MAX,
            set: |s, ms| s.governor.queue_ms = ms,
        },
        default: Some("100ms"),
        doc: "How long connections wait to be accepted while a loop is overloaded",
        more: "The accept queue is made as long as what the loop serves in that time and in its \
               longest turn, and never longer than `accept.backlog`. When it is full the kernel \
               drops newcomers, and they try again by themselves after a second. It needs a \
               listening socket of the worker's own.",
        source: "S0 section 6.3 (M48), listen(2)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "governor.give-up",
        task: Task::Overload,
        kind: Kind::Duration {
            least_ms: 1,
            most_ms: QUEUE_MS_MAX,
            set: |s, ms| s.governor.give_up_ms = Some(ms),
        },
        word: Some(Word { name: "off", set: |s| s.governor.give_up_ms = None }),
        default: Some("off"),
        doc: "How long clients wait before they give up",
        more: "While a loop is overloaded it closes connections that have waited for longer to be \
               accepted. Whatever it says, the loop closes those whose clients have closed their \
               end and said no more for a second.",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "turn.accept-time",
        task: Task::Overload,
        kind: Kind::Duration {
            least_ms: 1,
            most_ms: PHASE_MS_MAX,
            set: |s, ms| s.governor.accept_ms = Some(ms),
        },
        word: Some(Word { name: "off", set: |s| s.governor.accept_ms = None }),
        default: Some("1ms"),
        doc: "How long an accept phase of a loop lasts at most",
        more: "Used if `governor.mode` is on. The phase ends earlier by `accept.limit`. The clock \
               is read after each 16 connections. `off` is no such bound.",
        source: "S0 sections 6.2 and 8 (M47)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "turn.work-time",
        task: Task::Overload,
        kind: Kind::Duration {
            least_ms: 1,
            most_ms: PHASE_MS_MAX,
            set: |s, ms| s.governor.work_ms = Some(ms),
        },
        word: Some(Word { name: "off", set: |s| s.governor.work_ms = None }),
        default: Some("2ms"),
        doc: "How long a work phase of a loop lasts at most",
        more: "Used if `governor.mode` is on. Connections that had no turn when the time was over \
               have theirs first in the next work phase. What one connection does in its turn is \
               not cut short. `off` is no such bound.",
        source: "S0 sections 6.2 and 8 (M47)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
];
