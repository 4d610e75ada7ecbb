//! Every state rule of a served connection, in one table.
//!
//! A state says what may still come in and what is still owed; whether output is waiting in the
//! socket is beside it, because answers to one batch of pipelined requests leave together.
//! docs/h1-states.md shows the same table as a diagram, and a test keeps the two equal.

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Between requests: no byte of the next one has come.
    Idle,
    /// A request head is coming in.
    Head,
    /// A whole request is in; its answer is awaited.
    Asked,
    /// A request head is in and its body is coming; the answer is awaited.
    AskedBody,
    /// The answer is given, and the rest of the request body is being drained.
    AnsweredBody,
    /// The head of an answer is given, and its body is being produced while it is sent. Nothing is
    /// read meanwhile.
    Streaming,
    /// The head of an answer is given and its body is being produced, while the rest of the request
    /// body still comes: a backend began to answer early.
    Exchanging,
    /// The last answer is given: close once it is sent.
    Closing,
    /// The last answer is given, but the client may still be sending: once it is sent, shut down
    /// our side and linger (RFC 9112, section 9.6).
    Parting,
    /// Our side is shut; what still comes is thrown away until the client closes.
    Lingering,
    /// A reset is due: an answer was cut short, or the client sends without end. It would take
    /// along what the socket holds, of earlier answers too: it waits until the client has that.
    Breaking,
    /// Over.
    Closed,
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The first byte of a request came.
    FirstByte,
    /// A head ended, and no body follows.
    HeadEnd,
    /// A head ended, and a body follows.
    HeadEndBody,
    /// The request body ended.
    BodyEnd,
    /// The head of an answer is given; its body comes in pieces.
    AnswerBegin,
    /// The same, while the request body is still taken.
    AnswerBeginEarly,
    /// The answer is given, and the connection may be kept.
    AnswerKeep,
    /// The last answer is given, and nothing more is expected from the client.
    AnswerClose,
    /// The last answer or a refusal is given, but the client may still be sending.
    Part,
    /// The answer that is being sent cannot be finished.
    BreakOff,
    /// All output is sent.
    Drained,
    /// The same, and an orderly end would pass for the end of an answer that is cut short.
    DrainedShort,
    /// The client sent more than is thrown away.
    Overrun,
    /// The client closed its side.
    Eof,
    /// The deadline passed with nothing to say about it.
    Expire,
    /// The socket failed, or the server gave the connection up.
    Abort,
}

impl State {
    /// Every state.
    pub const ALL: [State; 12] = [
        State::Idle,
        State::Head,
        State::Asked,
        State::AskedBody,
        State::AnsweredBody,
        State::Streaming,
        State::Exchanging,
        State::Closing,
        State::Parting,
        State::Lingering,
        State::Breaking,
        State::Closed,
    ];

    /// The state after `event`; `None` when the event cannot happen here, which is our mistake.
    pub fn after(self, event: Event) -> Option<State> {
        use Event as E;
        use State as S;
        let next = match (self, event) {
            (_, E::Abort) => S::Closed,

            (S::Idle, E::FirstByte) => S::Head,
            // Answers that are owed are still sent: only one side is closed.
            (S::Idle | S::Head | S::AskedBody | S::AnsweredBody, E::Eof) => S::Closing,
            (S::Idle, E::Expire) => S::Closed,
            (S::Idle, E::Part) => S::Parting,

            (S::Head, E::HeadEnd) => S::Asked,
            (S::Head, E::HeadEndBody) => S::AskedBody,
            (S::Head, E::Part) => S::Parting,

            (S::Asked | S::AskedBody, E::AnswerBegin) => S::Streaming,
            (S::Asked | S::Streaming, E::AnswerKeep) => S::Idle,
            (S::Asked | S::Streaming, E::AnswerClose) => S::Closing,
            (S::Asked | S::Streaming, E::Part) => S::Parting,

            (S::AskedBody, E::AnswerBeginEarly) => S::Exchanging,
            (S::Exchanging, E::BodyEnd) => S::Streaming,
            (S::Exchanging, E::Part) => S::Parting,

            (S::AskedBody, E::BodyEnd) => S::Asked,
            (S::AskedBody, E::AnswerKeep) => S::AnsweredBody,
            (S::AskedBody, E::Part) => S::Parting,

            (S::AnsweredBody, E::BodyEnd) => S::Idle,
            (S::AnsweredBody, E::Part) => S::Parting,

            // Whatever came behind it gets no answer.
            (S::Lingering | S::Breaking | S::Closed, E::BreakOff) => return None,
            (_, E::BreakOff) => S::Parting,

            (S::Closing, E::Drained) => S::Closed,
            (S::Parting, E::Drained) => S::Lingering,
            (S::Parting, E::DrainedShort) => S::Breaking,
            (S::Lingering, E::Overrun) => S::Breaking,
            (S::Lingering, E::Eof | E::Expire) => S::Closed,
            (S::Breaking, E::Expire) => S::Closed,

            _ => return None,
        };
        Some(next)
    }
}

impl Event {
    /// Every event.
    pub const ALL: [Event; 16] = [
        Event::FirstByte,
        Event::HeadEnd,
        Event::HeadEndBody,
        Event::BodyEnd,
        Event::AnswerBegin,
        Event::AnswerBeginEarly,
        Event::AnswerKeep,
        Event::AnswerClose,
        Event::Part,
        Event::BreakOff,
        Event::Drained,
        Event::DrainedShort,
        Event::Overrun,
        Event::Eof,
        Event::Expire,
        Event::Abort,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table as a Mermaid diagram; `Abort` and `BreakOff` lead from everywhere to one state and
    /// are left out.
    fn diagram() -> String {
        let mut text = String::from(
            "# The states of a served HTTP/1.x connection\n\n\
             Made from `State::after` in `crates/http/src/h1/state.rs` by `cargo xtask docs`.\n\
             `Abort` leads from every state to `Closed`, and `BreakOff` from every state that\n\
             may have output to `Parting`: they are not drawn. A pair that is not drawn cannot\n\
             happen.\n\n\
             ```mermaid\nstateDiagram-v2\n    [*] --> Idle\n",
        );
        for state in State::ALL {
            let drawn = |event: &Event| !matches!(event, Event::Abort | Event::BreakOff);
            for event in Event::ALL.into_iter().filter(drawn) {
                if let Some(next) = state.after(event) {
                    text += &format!("    {state:?} --> {next:?}: {event:?}\n");
                }
            }
        }
        text + "    Closed --> [*]\n```\n"
    }

    #[test]
    fn the_state_diagram_in_the_docs_is_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/h1-states.md");
        if std::env::var_os("FLYBALL_BLESS").is_some() {
            std::fs::write(path, diagram()).expect("docs/ can be written");
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(found, diagram(), "docs/h1-states.md is stale: run `cargo xtask docs`");
    }

    #[test]
    fn every_state_is_reached_and_every_state_but_closed_can_be_left() {
        for state in State::ALL {
            let reached = State::ALL.into_iter().any(|from| {
                from != state && Event::ALL.into_iter().any(|e| from.after(e) == Some(state))
            });
            assert!(reached, "{state:?} is never reached");
            let left = Event::ALL
                .into_iter()
                .any(|e| e != Event::Abort && state.after(e).is_some_and(|next| next != state));
            assert_eq!(left, state != State::Closed, "{state:?}");
        }
    }

    #[test]
    fn all_pairs_keep_the_rules_that_the_table_stands_for() {
        for state in State::ALL {
            for event in Event::ALL {
                let next = state.after(event);
                // Nothing revives a closed connection.
                assert!(state != State::Closed || matches!(next, None | Some(State::Closed)));
                // Only an answered request leads back to idle.
                if next == Some(State::Idle) {
                    assert!(matches!(event, Event::AnswerKeep | Event::BodyEnd));
                }
                // A client that may still be sending gets time to read the answer before a reset.
                if matches!(event, Event::Part | Event::BreakOff) && next.is_some() {
                    assert_eq!(next, Some(State::Parting));
                }
                // An answer can be begun only once, and ended only once.
                let (asked, answered) = ([State::Asked, State::AskedBody], State::Streaming);
                if event == Event::AnswerBegin && next.is_some() {
                    assert!(asked.contains(&state) && next == Some(answered));
                }
                if matches!(event, Event::AnswerKeep | Event::AnswerClose) && next.is_some() {
                    assert!(asked.contains(&state) || state == answered);
                    assert!(next.is_none_or(|next| !asked.contains(&next) && next != answered));
                }
                // While an answer is produced nothing is read: only its end leads on.
                if state == answered && next.is_some() {
                    let cuts = [Event::Part, Event::BreakOff, Event::Abort];
                    let mut ends = [Event::AnswerKeep, Event::AnswerClose].into_iter().chain(cuts);
                    assert!(ends.any(|end| end == event), "{event:?}");
                }
            }
        }
    }
}
