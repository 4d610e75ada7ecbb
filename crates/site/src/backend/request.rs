//! What a worker asks of the process that starts programs, as one record, and what that tells back.

use flyball_http::OwnedRequest;

use super::environment::{Environment, is_of_request};

/// Longest record.
pub const RECORD_BYTES_MAX: usize = 128 * 1024;

/// What a program is started for.
#[derive(Debug, Default)]
pub struct StartRequest {
    /// The number of the rule.
    pub rule: u32,
    /// The path beneath that of the rule, decoded but for slashes: empty, or with a slash at its
    /// start.
    pub below: Vec<u8>,
    /// What the request itself says.
    pub environment: Environment,
}

impl StartRequest {
    /// As one record; `None` when it is too long.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut record = Vec::with_capacity(4096);
        record.extend_from_slice(&self.rule.to_le_bytes());
        let variables = self.environment.iter().flat_map(|(name, value)| [name, value]);
        for text in [&*self.below].into_iter().chain(variables) {
            record.extend_from_slice(&u32::try_from(text.len()).ok()?.to_le_bytes());
            record.extend_from_slice(text);
        }
        (record.len() <= RECORD_BYTES_MAX).then_some(record)
    }

    /// Back from a record, which a worker may have made up; `None` when it is none.
    pub fn decode(mut record: &[u8]) -> Option<StartRequest> {
        let rule = u32::from_le_bytes(*record.split_off(..4)?.as_array()?);
        let mut texts = Vec::new();
        while !record.is_empty() {
            let len = u32::from_le_bytes(*record.split_off(..4)?.as_array()?) as usize;
            let text = record.split_off(..len)?;
            texts.push(text);
        }
        let mut texts = texts.into_iter();
        let below = texts.next()?.to_vec();
        // No variable holds one.
        if texts.clone().any(|text| text.contains(&0)) {
            return None;
        }
        let mut environment = Environment::default();
        while let Some(name) = texts.next() {
            if !is_of_request(name) {
                return None;
            }
            environment.add_bytes(name.iter().copied(), &[texts.next()?]);
        }
        Some(StartRequest { rule, below, environment })
    }
}

/// What a worker sends over the leash of a program when the answer has ended: the program may go on
/// by itself for a while.
pub const LEAVE: &[u8] = b"L";

/// What it sends, with the program's input, when the program shall end before its input does.
pub const CUT: &[u8] = b"C";

/// What it sends when the program has got the whole request body: its input may end.
pub const WHOLE: &[u8] = b"W";

/// What is told of a program, over its leash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// As many run as may.
    Busy,
    /// There is none of that name.
    Missing,
    /// It may not be run.
    Forbidden,
    /// It could not be started, with this error of the system.
    Failed(i32),
    /// It is there and may be run, but what it names as its interpreter does not run it.
    Unrunnable,
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
}

impl Told {
    /// As one record.
    pub fn encode(self) -> [u8; 5] {
        let (kind, number) = match self {
            Told::Busy => (b'B', 0),
            Told::Missing => (b'M', 0),
            Told::Forbidden => (b'P', 0),
            Told::Failed(error) => (b'F', error),
            Told::Unrunnable => (b'I', 0),
            Told::Exited(code) => (b'X', code),
            Told::Killed(signal) => (b'K', signal),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [kind, a, b, c, d]
    }

    /// Back from a record.
    pub fn decode(record: &[u8]) -> Option<Told> {
        let [kind, a, b, c, d] = *record.as_array()?;
        let number = i32::from_le_bytes([a, b, c, d]);
        Some(match kind {
            b'B' => Told::Busy,
            b'M' => Told::Missing,
            b'P' => Told::Forbidden,
            b'F' => Told::Failed(number),
            b'I' => Told::Unrunnable,
            b'X' => Told::Exited(number),
            b'K' => Told::Killed(number),
            _ => return None,
        })
    }
}

/// What a request is, for a line of the log: its method and path, and an id of its own.
pub(super) fn name_of(kind: &str, request: &OwnedRequest, id: &str) -> String {
    let request = request.request();
    let [method, path] = [request.method_token(), request.path()].map(String::from_utf8_lossy);
    // At once as long as it will be: there is one for each request.
    [kind, ": ", &method, " ", &path, " [", id, "]"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Environment {
        let mut environment = Environment::default();
        pairs.iter().for_each(|(name, value)| environment.add(name, value.as_bytes()));
        environment
    }

    /// All that it says.
    #[derive(Debug, PartialEq)]
    struct Said<'a> {
        rule: u32,
        below: &'a [u8],
        environment: Vec<(&'a [u8], &'a [u8])>,
    }

    fn said(request: &StartRequest) -> Said<'_> {
        let StartRequest { rule, below, environment } = request;
        Said { rule: *rule, below, environment: environment.iter().collect() }
    }

    fn request() -> StartRequest {
        StartRequest {
            rule: 3,
            below: b"/x y".to_vec(),
            environment: of(&[("HTTP_A", "b=c"), ("QUERY_STRING", "")]),
        }
    }

    #[test]
    fn a_request_is_the_same_on_the_other_side() {
        let record = request().encode().unwrap();
        assert_eq!(said(&StartRequest::decode(&record).unwrap()), said(&request()));
        for told in [Told::Busy, Told::Missing, Told::Failed(-2), Told::Exited(1), Told::Killed(9)]
        {
            assert_eq!(Told::decode(&told.encode()), Some(told));
        }
        assert_eq!(Told::decode(b"X"), None);
    }

    #[test]
    fn a_record_that_a_worker_made_up_is_refused() {
        let record = request().encode().unwrap();
        for len in 0..record.len() {
            let decoded = StartRequest::decode(&record[..len]);
            assert_ne!(decoded.as_ref().map(said), Some(said(&request())), "cut at {len}");
        }
        let with = |below: &[u8], name: &str| StartRequest {
            below: below.to_vec(),
            environment: of(&[(name, "")]),
            ..StartRequest::default()
        };
        assert!(StartRequest::decode(&with(b"", "HTTP_A").encode().unwrap()).is_some());
        for bad in [
            with(b"", "HTTP_A\0"),
            with(b"", "HTTP_A=B"),
            with(b"", ""),
            with(b"", "LD_PRELOAD"),
            with(b"", "PATH"),
        ] {
            assert!(StartRequest::decode(&bad.encode().unwrap()).is_none());
        }
        let long = StartRequest { below: vec![b'x'; RECORD_BYTES_MAX], ..request() };
        assert_eq!(long.encode(), None);
    }
}
