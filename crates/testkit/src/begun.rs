//! A client that has begun to speak, and goes on when it is told to.

use crate::client::Client;
use crate::response::Response;

/// A connection whose client has sent its first bytes: of a hello where it speaks TLS, or else of
/// its request.
#[derive(Debug)]
pub struct Begun {
    client: Client,
    /// What of them is left.
    rest: Vec<u8>,
    /// Its request, if all of that follows.
    request: Option<String>,
}

impl Client {
    /// Sends all of a hello if it is to speak TLS, or else of this request, which is not HEAD; or
    /// half of that.
    #[track_caller]
    pub fn begin(mut self, is_secure: bool, request: String, is_half: bool) -> Begun {
        let (mut first, request) = match is_secure {
            true => (self.hello(), Some(request)),
            false => (request.into_bytes(), None),
        };
        let rest = first.split_off(if is_half { first.len() / 2 } else { first.len() });
        self.send_as_is(&first).expect("the server takes what is sent");
        Begun { client: self, rest, request }
    }
}

impl Begun {
    /// Sends what is left and reads the response; `None` when the connection ends before the whole
    /// of that has come.
    ///
    /// # Panics
    /// When it neither comes nor ends.
    #[track_caller]
    pub fn finish(mut self) -> Option<Response> {
        self.client.send_as_is(&self.rest).ok()?;
        match self.request {
            Some(request) => {
                self.client.shake_hands().ok()?;
                self.client.try_ask(request)
            }
            None => self.client.try_response(),
        }
    }
}
