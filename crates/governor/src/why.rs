//! Why something was decided: one enum with its numbers, so that text, JSON and tests say the same.

use std::fmt::{self, Display, Formatter, Write};

use crate::Ns;

/// A time that is told in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ms(pub Ns);

impl Display for Ms {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ms = self.0 as f64 / 1e6;
        match ms {
            10_000.0.. => write!(f, "{:.1} s", ms / 1e3),
            10.0.. => write!(f, "{ms:.0} ms"),
            _ => write!(f, "{ms:.1} ms"),
        }
    }
}

/// A number in JSON; a time is in milliseconds.
trait Number {
    fn write(&self, out: &mut dyn Write) -> fmt::Result;
}

impl Number for Ms {
    fn write(&self, out: &mut dyn Write) -> fmt::Result {
        write!(out, "{}", self.0 as f64 / 1e6)
    }
}

impl Number for u32 {
    fn write(&self, out: &mut dyn Write) -> fmt::Result {
        write!(out, "{self}")
    }
}

/// Makes the enum, its text and its JSON out of one table.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $key:literal
        { $($(#[$field_doc:meta])* $field:ident: $type:ty),* } => $text:literal;)*) => {
        /// Why something was decided.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Why {
            $($(#[$doc])* $name { $($(#[$field_doc])* $field: $type),* }),*
        }

        impl Display for Why {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                match self { $(Why::$name { $($field),* } => write!(f, $text)),* }
            }
        }

        impl Why {
            /// Its name, and its numbers, as members of a JSON object; times in milliseconds.
            pub(crate) fn members(&self, out: &mut dyn Write) -> fmt::Result {
                match self {
                    $(Why::$name { $($field),* } => {
                        out.write_str(concat!("\"why\":\"", $key, "\""))?;
                        $(
                            out.write_str(concat!(",\"", stringify!($field), "\":"))?;
                            Number::write($field, out)?;
                        )*
                        Ok(())
                    })*
                }
            }
        }
    };
}

reasons! {
    /// The head of the accept queue was never younger within a window.
    HeadOld "head-old" {
        /// The least age within the window.
        age_ms: Ms,
        /// What it may be.
        target_ms: Ms
    } => "the head of the accept queue waited {age_ms}, target {target_ms}";
    /// The kernel dropped connections in two windows one after the other.
    Dropped "dropped" {
        /// In the second of them.
        drops: u32
    } => "the kernel dropped {drops} at the accept queue, and some before";
    /// Nothing old, dropped or shed for long enough.
    Calm "calm" {
        /// For so long.
        for_ms: Ms
    } => "calm for {for_ms}";
    /// The accept queue's length for its time.
    QueueTime "queue-time" {
        /// Connections served in a second.
        per_s: u32,
        /// How long one may wait.
        time_ms: Ms
    } => "{per_s}/s, {time_ms} asked for";
    /// Overload goes on although the level before was reached.
    StillOverloaded "still-overloaded" {
        /// For so long on that level.
        for_ms: Ms
    } => "still overloaded after {for_ms}";
    /// A gate's places are taken and its queue is full.
    QueueFull "queue-full" {
        /// How many are at work.
        busy: u32,
        /// How many wait.
        waiting: u32,
        /// How long the next would wait.
        expected_ms: Ms,
        /// How long it may.
        bound_ms: Ms
    } => "{busy} at work, {waiting} wait: {expected_ms} expected, {bound_ms} allowed";
    /// A request waited at a gate for longer than twice what it may.
    Late "late" {
        /// How long it waited.
        waited_ms: Ms,
        /// What it may.
        bound_ms: Ms
    } => "waited {waited_ms}, {bound_ms} allowed";
    /// The loop beside whose threads a gate stands is overloaded.
    LoopOverloaded "loop-overloaded" {
        /// How many were at work.
        busy: u32
    } => "the loop is overloaded, {busy} at work beside it";
    /// The loop beside whose threads a gate stands would bear another of them.
    LoopHasRoom "loop-has-room" {
        /// How much of the time it does not wait for events.
        busy_percent: u32
    } => "the loop beside it is busy for {busy_percent} % of the time";
    /// Jobs wait for a thread of a pool, and there is CPU time left for another.
    JobsWait "jobs-wait" {
        /// The 95th percentile of their waits.
        waited_ms: Ms,
        /// How long one takes.
        service_ms: Ms,
        /// Idle CPU, in percent.
        idle_percent: u32
    } => "jobs wait {waited_ms} and take {service_ms}, {idle_percent} % of the CPU idle";
    /// Threads of a pool are idle.
    Idle "idle" {
        /// How many.
        idle: u32,
        /// For so long.
        for_ms: Ms
    } => "{idle} idle for {for_ms}";
    /// A pool that grew did not do more.
    NoGain "no-gain" {
        /// How long a job took before.
        service_before_ms: Ms,
        /// How long it takes since.
        service_ms: Ms,
        /// Jobs in a second before.
        per_s_before: u32,
        /// Jobs in a second since.
        per_s: u32
    } => "jobs take {service_ms} instead of {service_before_ms}, \
          {per_s}/s instead of {per_s_before}/s";
    /// The CPU allowance has changed.
    QuotaChanged "quota-changed" {
        /// Allowed now, in hundredths of a CPU.
        allowed_percent: u32,
        /// For so long.
        for_ms: Ms
    } => "{allowed_percent} % of a CPU allowed for {for_ms}";
    /// A larger cache would have had more hits.
    GhostHits "ghost-hits" {
        /// More hits, in hundredths of a percent of all requests.
        gain_basis_points: u32
    } => "{gain_basis_points} of 10,000 requests more would have been hits";
    /// Turns of a loop wait for the disk.
    DiskInTurns "disk-in-turns" {
        /// Share of the turns' time, in percent.
        percent: u32
    } => "{percent} % of the loop's time is waiting for the disk: helpers would take it";
    /// Connections have many requests, or few.
    RequestsEach "requests-each" {
        /// Requests of a connection, in hundredths.
        hundredths: u32
    } => "{hundredths} hundredths of a request for each connection";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_say_the_same_numbers() {
        let why = Why::HeadOld { age_ms: Ms(1_900_000_000), target_ms: Ms(8_500_000) };
        assert_eq!(why.to_string(), "the head of the accept queue waited 1900 ms, target 8.5 ms");
        let mut json = String::new();
        why.members(&mut json).unwrap();
        assert_eq!(json, r#""why":"head-old","age_ms":1900,"target_ms":8.5"#);
        assert_eq!(Why::Calm { for_ms: Ms(12_340_000_000) }.to_string(), "calm for 12.3 s");
    }
}
