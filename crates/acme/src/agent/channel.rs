//! The agent's end of what it and the master tell each other.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::messages::{FromAgent, MESSAGE_MAX, ToAgent};

/// Messages that were read and wait for their turn. The master waits where there are more.
const WAITING_MAX: usize = 64;

/// The master has ended, or speaks another language.
#[derive(Debug)]
pub(crate) struct Gone(pub(crate) String);

/// Messages in, messages out.
pub(crate) struct Channel {
    incoming: Receiver<Result<ToAgent, String>>,
    /// Came while something else was waited for.
    set_aside: VecDeque<ToAgent>,
    output: Output,
}

/// The way to the master, for two threads.
type Output = Arc<Mutex<Box<dyn Write + Send>>>;

impl Channel {
    /// Begins to read, in a thread that ends with the input. What `answer` says to a message is
    /// told when that is read, whatever the agent does meanwhile.
    pub(crate) fn new(
        input: impl BufRead + Send + 'static,
        output: impl Write + Send + 'static,
        answer: impl Fn(&ToAgent) -> Option<FromAgent> + Send + 'static,
    ) -> Channel {
        let (sender, incoming) = sync_channel(WAITING_MAX);
        let output: Output = Arc::new(Mutex::new(Box::new(output)));
        let reply = Arc::clone(&output);
        thread::spawn(move || {
            read(input, &sender, |message| {
                // That the master has ended is seen by what comes from it.
                answer(message).map(|answer| write(&reply, &answer));
            });
        });
        Channel { incoming, set_aside: VecDeque::new(), output }
    }

    /// Tells the master. Blocks while it does not read.
    ///
    /// # Errors
    /// When it has ended.
    pub(crate) fn tell(&mut self, message: &FromAgent) -> Result<(), Gone> {
        write(&self.output, message).map_err(|error| Gone(error.to_string()))
    }

    /// The next message, if one comes in time.
    ///
    /// # Errors
    /// When the master has ended, or what it says cannot be understood.
    pub(crate) fn next(&mut self, at_most: Duration) -> Result<Option<ToAgent>, Gone> {
        match self.set_aside.pop_front() {
            Some(message) => Ok(Some(message)),
            None => self.receive(at_most),
        }
    }

    /// The next message that `wanted` makes something of, if it comes in time. Others keep their
    /// places.
    ///
    /// # Errors
    /// As [`next`](Channel::next), and when too many others come.
    pub(crate) fn pick<T>(
        &mut self,
        at_most: Duration,
        mut wanted: impl FnMut(&ToAgent) -> Option<T>,
    ) -> Result<Option<T>, Gone> {
        let deadline = Instant::now() + at_most;
        loop {
            let Some(message) = self.receive(deadline.saturating_duration_since(Instant::now()))?
            else {
                return Ok(None);
            };
            if let Some(found) = wanted(&message) {
                return Ok(Some(found));
            }
            if self.set_aside.len() == WAITING_MAX {
                return Err(Gone("too many messages at once".into()));
            }
            self.set_aside.push_back(message);
        }
    }

    /// Lets time go by; messages that come keep their places.
    ///
    /// # Errors
    /// As [`pick`](Channel::pick).
    pub(crate) fn pass(&mut self, time: Duration) -> Result<(), Gone> {
        self.pick(time, |_| None::<()>).map(|_| ())
    }

    fn receive(&mut self, at_most: Duration) -> Result<Option<ToAgent>, Gone> {
        match self.incoming.recv_timeout(at_most) {
            Ok(Ok(message)) => Ok(Some(message)),
            Ok(Err(why)) => Err(Gone(why)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Gone("the input has ended".into())),
        }
    }
}

fn write(output: &Output, message: &FromAgent) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    output.write_all(&line)?;
    output.flush()
}

fn read(
    mut input: impl BufRead,
    sender: &SyncSender<Result<ToAgent, String>>,
    answer: impl Fn(&ToAgent),
) {
    let mut line = Vec::new();
    while let Some(message) = read_message(&mut input, &mut line) {
        message.iter().for_each(&answer);
        let is_last = message.is_err();
        if sender.send(message).is_err() || is_last {
            return;
        }
    }
}

/// The next message, for which `line` is scratch; nothing at the end. Blocks.
pub(crate) fn read_message(
    input: &mut impl BufRead,
    line: &mut Vec<u8>,
) -> Option<Result<ToAgent, String>> {
    line.clear();
    let read = input.by_ref().take(MESSAGE_MAX as u64).read_until(b'\n', line);
    Some(match read {
        Ok(0) => return None,
        Ok(_) if line.ends_with(b"\n") => {
            serde_json::from_slice(line).map_err(|error| format!("a message: {error}"))
        }
        Ok(_) => Err("a message is cut, or too long".into()),
        Err(error) => Err(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than any wait of a test that passes.
    const LONG: Duration = Duration::from_secs(60);

    fn channel(input: &str) -> Channel {
        Channel::new(io::Cursor::new(input.as_bytes().to_vec()), io::sink(), |_| None)
    }

    #[test]
    fn what_comes_meanwhile_keeps_its_place() {
        let mut channel = channel(
            "{\"renew\": {\"name\": \"a\"}}\n{\"challenge-stands\": {\"id\": 7}}\n\
             {\"renew\": {\"name\": \"b\"}}\n",
        );
        let stands = |message: &ToAgent| match message {
            ToAgent::ChallengeStands { id } => Some(*id),
            _ => None,
        };
        assert_eq!(channel.pick(LONG, stands).unwrap(), Some(7));
        let renew = |name: &str| ToAgent::Renew { name: name.into() };
        assert_eq!(channel.next(LONG).unwrap(), Some(renew("a")));
        assert_eq!(channel.next(LONG).unwrap(), Some(renew("b")));
        assert_eq!(channel.next(LONG).unwrap_err().0, "the input has ended");
    }

    #[test]
    fn a_message_that_is_cut_or_unknown_ends_the_talk() {
        for (input, why) in [("{\"renew\"", "cut"), ("{\"x\": 1}\n", "unknown variant")] {
            let told = channel(input).next(LONG).unwrap_err().0;
            assert!(told.contains(why), "{told}");
        }
    }
}
