//! One answer, part by part, with the bytes of it that came and were not looked at: for who asks a
//! question and need not be fast.

use super::client::{AnswerHead, Client, Event};
use crate::error::Refusal;
use crate::limits::Limits;

/// What comes next of an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// More input is needed: [`Incoming::received`] or [`Incoming::eof`].
    More,
    /// Its head, and that as it came.
    Head(AnswerHead, &'a [u8]),
    /// Bytes of its body.
    Body(&'a [u8]),
    /// It is complete.
    End,
    /// The connection cannot go on.
    Broken(Refusal),
}

/// An answer that is on its way.
#[derive(Debug)]
pub struct Incoming {
    client: Client,
    /// What came, the first `at` bytes of which were looked at.
    input: Vec<u8>,
    at: usize,
}

impl Incoming {
    /// That to a request which was sent; `to_head` says that its method is HEAD, so that no body
    /// follows.
    pub fn new(to_head: bool) -> Incoming {
        let mut client = Client::new(Limits::default());
        client.requested(to_head);
        Incoming { client, input: Vec::new(), at: 0 }
    }

    /// Bytes came.
    pub fn received(&mut self, bytes: &[u8]) {
        self.input.drain(..self.at);
        self.at = 0;
        self.input.extend_from_slice(bytes);
    }

    /// Bytes that came and were not looked at.
    pub fn held(&self) -> usize {
        self.input.len() - self.at
    }

    /// What comes next.
    pub fn next_part(&mut self) -> Part<'_> {
        let (consumed, event) = self.client.recv(&self.input[self.at..]);
        self.at += consumed;
        if let Event::Body(ready) = event {
            self.client.taken(ready);
            self.at += ready;
        }
        self.part(event)
    }

    /// The server has closed the connection: the end, or why that is none.
    pub fn eof(&mut self) -> Part<'_> {
        let event = self.client.eof();
        self.part(event)
    }

    /// What an event tells of the bytes before `at`.
    fn part(&self, event: Event) -> Part<'_> {
        let last = |len: usize| &self.input[self.at - len..self.at];
        match event {
            Event::More => Part::More,
            Event::Head(head) => Part::Head(head, last(head.len)),
            Event::Body(ready) => Part::Body(last(ready)),
            // It is never idle: the request was sent.
            Event::End | Event::Idle => Part::End,
            Event::Broken(refusal) => Part::Broken(refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head and the body of an answer that comes in pieces of this length.
    fn parts(answer: &[u8], piece: usize) -> (Vec<u8>, Vec<u8>) {
        let (mut incoming, mut pieces) = (Incoming::new(false), answer.chunks(piece));
        let (mut head, mut body) = (Vec::new(), Vec::new());
        loop {
            match incoming.next_part() {
                Part::More => incoming.received(pieces.next().unwrap()),
                Part::Head(_, bytes) => head = bytes.to_vec(),
                Part::Body(bytes) => body.extend_from_slice(bytes),
                Part::End => return (head, body),
                Part::Broken(refusal) => panic!("{refusal:?}"),
            }
        }
    }

    #[test]
    fn an_answer_is_the_same_however_it_comes() {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let interim = b"HTTP/1.1 103 Early Hints\r\n\r\n";
        let answer = [&interim[..], head, b"2\r\nhi\r\n4\r\n you\r\n0\r\n\r\n"].concat();
        for piece in 1..=answer.len() {
            assert_eq!(parts(&answer, piece), (head.to_vec(), b"hi you".to_vec()), "{piece}");
        }
    }

    #[test]
    fn an_answer_that_is_cut_has_no_end() {
        let mut incoming = Incoming::new(false);
        incoming.received(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab");
        assert!(matches!(incoming.next_part(), Part::Head(..)));
        assert_eq!(incoming.next_part(), Part::Body(b"ab"));
        assert_eq!(incoming.next_part(), Part::More);
        assert_eq!(incoming.held(), 0);
        assert!(matches!(incoming.eof(), Part::Broken(_)));
    }
}
