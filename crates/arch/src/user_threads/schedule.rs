//! The order in which a pass runs the threads of its queue (M10). Capriccio lets its scheduler be
//! chosen, and has one that knows resources: the points where threads park are the nodes of a
//! graph, and what threads took or gave back on their way from a node tells what the next one will.
//!
//! The resource here is the place of a connection: its descriptor and, with it, its stack. A pass
//! runs everybody who is ready once, whatever the order: nobody starves.

use std::collections::VecDeque;

use flyball_http::h1::state::State;

use super::scheduler::{Stand, Why};
use crate::settings::ThreadOrder;
use crate::slots::Token;

/// Reasons to park.
const WHYS: usize = 4;

/// States of a connection, and none.
const STATES: usize = 1 + State::ALL.len();

/// One place of a connection, in the units of averages.
const PLACE: i64 = 1024;

/// The weight of the newest turn in an average is one part in so many.
const WEIGHT: i64 = 8;

/// A point where threads park: why, and where their connections stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node(usize);

impl Node {
    pub(super) fn of(why: Why, stand: Option<Stand>) -> Node {
        let state = stand.map_or(0, |stand| 1 + stand.standing.state() as usize);
        debug_assert!(state < STATES, "every state has its node");
        Node((why as usize * STATES + state) % (WHYS * STATES))
    }
}

/// What the turns that began at a node were like, on average: the newest count most.
#[derive(Clone, Copy, Debug, Default)]
struct Averages {
    /// Places taken, less those given back; 1,024 for each.
    places: i64,
    /// Time until the thread parked again or ended, in nanoseconds.
    ns: i64,
}

/// The order of passes.
#[derive(Debug)]
pub(super) struct Schedule {
    order: ThreadOrder,
    nodes: [Averages; WHYS * STATES],
    /// Scratch: what threads are sorted by.
    keyed: Vec<((i64, i64), Token)>,
}

impl Schedule {
    pub(super) fn new(order: ThreadOrder) -> Schedule {
        Schedule { order, nodes: [Averages::default(); WHYS * STATES], keyed: Vec::new() }
    }

    /// Whether it wants to know what turns were like.
    pub(super) fn learns(&self) -> bool {
        self.order == ThreadOrder::Resource
    }

    /// A turn that began at this node took so many places, or gave them back, in so much time.
    pub(super) fn learn(&mut self, node: Node, places: i64, ns: u64) {
        let averages = &mut self.nodes[node.0];
        averages.places += places.saturating_mul(PLACE).saturating_sub(averages.places) / WEIGHT;
        averages.ns += (i64::try_from(ns).unwrap_or(i64::MAX) - averages.ns) / WEIGHT;
    }

    /// Brings a queue, which is in the order in which its threads could go on, into the order that
    /// is asked for. `scarce` tells that places run short: then those go first who will probably
    /// give one back, those last who will take one, and among equals the quick ones first.
    pub(super) fn arrange(
        &mut self,
        queue: &mut VecDeque<Token>,
        scarce: bool,
        mut node_of: impl FnMut(Token) -> Option<Node>,
    ) {
        match self.order {
            ThreadOrder::Fifo => return,
            ThreadOrder::Lifo => return queue.make_contiguous().reverse(),
            ThreadOrder::Resource if !scarce || queue.len() < 2 => return,
            ThreadOrder::Resource => {}
        }
        for token in queue.drain(..) {
            let averages = node_of(token).map_or(Averages::default(), |node| self.nodes[node.0]);
            self.keyed.push(((averages.places, averages.ns), token));
        }
        self.keyed.sort_by_key(|(key, _)| *key);
        queue.extend(self.keyed.drain(..).map(|(_, token)| token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_http::h1::state::State;
    use flyball_observe::standing::Standing;

    const fn stand(state: State) -> Option<Stand> {
        Some(Stand { standing: Standing::At(state), yields: None })
    }

    /// An acceptor, one that reads a head, one that closes, and a quick one that closes.
    fn nodes() -> [Node; 4] {
        [
            Node::of(Why::Accept, None),
            Node::of(Why::Ready, stand(State::Head)),
            Node::of(Why::Ready, stand(State::Closing)),
            Node::of(Why::Ready, stand(State::Lingering)),
        ]
    }

    fn arranged(order: ThreadOrder, scarce: bool) -> Vec<u64> {
        let mut schedule = Schedule::new(order);
        for (node, (places, ns)) in nodes().iter().zip([(3, 9), (0, 9), (-1, 900), (-1, 90)]) {
            schedule.learn(*node, places, ns);
        }
        let mut queue: VecDeque<Token> = (0..4).map(Token::from_bits).collect();
        schedule.arrange(&mut queue, scarce, |token| Some(nodes()[token.bits() as usize]));
        queue.into_iter().map(Token::bits).collect()
    }

    #[test]
    fn every_point_where_threads_park_is_a_node_of_its_own() {
        let whys = [Why::Accept, Why::Ready, Why::Disk, Why::Turn];
        let closed = whys.map(|why| Node::of(why, stand(State::Closed)));
        let none = whys.map(|why| Node::of(why, None));
        let mut numbers: Vec<usize> = closed.iter().chain(&none).map(|node| node.0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 8);
        assert!(numbers.iter().all(|number| *number < WHYS * STATES));
    }

    #[test]
    fn threads_run_in_the_order_that_is_asked_for() {
        for scarce in [false, true] {
            assert_eq!(arranged(ThreadOrder::Fifo, scarce), [0, 1, 2, 3]);
            assert_eq!(arranged(ThreadOrder::Lifo, scarce), [3, 2, 1, 0]);
        }
        assert_eq!(arranged(ThreadOrder::Resource, false), [0, 1, 2, 3]);
        assert_eq!(arranged(ThreadOrder::Resource, true), [3, 2, 1, 0]);
    }

    #[test]
    fn what_is_learned_of_a_node_follows_its_newest_turns() {
        let mut schedule = Schedule::new(ThreadOrder::Resource);
        let [accepts, reads, ..] = nodes();
        for _ in 0..100 {
            schedule.learn(accepts, 1, 10);
        }
        assert!(schedule.nodes[accepts.0].places > PLACE * 9 / 10);
        for _ in 0..100 {
            schedule.learn(accepts, -1, 10);
        }
        assert!(schedule.nodes[accepts.0].places < -PLACE * 9 / 10);
        assert_eq!(schedule.nodes[reads.0].places, 0);
        schedule.learn(reads, i64::MAX, u64::MAX);
    }
}
