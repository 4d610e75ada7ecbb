//! What the timeline of a request is told: of a plan its kind, of an answer its status and what is
//! sent before it, of a connection's need what that waits for.

use flyball_http::Status;
use flyball_observe::trace::{Trace, Wait, Work};
use flyball_site::{Ask, Out, Plan};

use crate::needs::Needs;

/// The connection went as far as it could, and needs this. A plan that it needs was told.
pub(super) fn needs(trace: &mut Trace, needs: &Needs) {
    match needs {
        needs if needs.asks.first().is_some() => {}
        Needs { over: Some(_), .. } | Needs { watch: Some(_), .. } => trace.turn(Wait::Server),
        Needs { write: true, .. } => trace.turn(Wait::Socket),
        Needs { read: true, .. } | Needs { socket: Some(_), .. } => trace.turn(Wait::Client),
        _ => trace.waits_on(),
    }
}

/// An answer of this status goes behind what is in `out`, which is added up only where a timeline
/// is kept.
pub(super) fn answers(trace: &mut Trace, status: Status, out: Option<&Out>) {
    if trace.is_kept() {
        trace.answers(status, out.map_or(0, Out::queued));
    }
}

/// The kind of a plan.
pub(super) fn work(plan: &Plan) -> Work {
    match plan {
        plan if plan.asked_by() == Ask::Ahead => Work::Ahead,
        plan if plan.computes() => Work::Compute,
        _ => Work::Disk,
    }
}
