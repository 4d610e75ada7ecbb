//! A server that answers requests: where it listens, and the links to it that nobody uses.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use flyball_sys::net::{self, Server};
use flyball_sys::owned::Owned;
use flyball_sys::responder::Mark;

use super::Failure;
use super::environment::Environment;
use super::fastcgi::FastCgi;
use super::places::Places;
use super::spares::Spares;

/// Where a link gets its socket from: one for each rule, shared by the threads of a process. Each
/// worker has links of its own, since they are made after the fork.
#[derive(Debug)]
pub struct Upstream {
    server: Server,
    /// What is asked, where this server starts what answers: only sockets that have this mark.
    mark: Option<Mark>,
    /// The one that was used last at the end: the others grow old and are closed by the server.
    idle: Mutex<Vec<Arc<Owned>>>,
    idle_max: usize,
    /// Places of links that are in use.
    pub(super) places: Arc<Places>,
    /// What nobody receives into at the moment: one for each thread that ever did.
    pub(super) buffers: Spares<Vec<u8>>,
    /// Variables of requests that are on their way.
    pub(super) environments: Spares<Environment>,
    /// Requests that have ended.
    pub(super) requests: Spares<Box<FastCgi>>,
}

impl Upstream {
    pub(super) fn new(server: Server, idle_max: usize, places: Arc<Places>) -> Upstream {
        Upstream {
            server,
            mark: None,
            idle: Mutex::default(),
            idle_max,
            places,
            buffers: Spares::default(),
            environments: Spares::default(),
            requests: Spares::default(),
        }
    }

    /// The same where this server starts what answers: only sockets of this mark are told anything,
    /// wherever the name leads.
    pub(super) fn of_mark(self, mark: Option<Mark>) -> Upstream {
        Upstream { mark, ..self }
    }

    /// Where it listens.
    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Whether links are kept after an answer.
    pub(super) fn keeps(&self) -> bool {
        self.idle_max > 0
    }

    /// Links that may be kept.
    pub fn idle_max(&self) -> usize {
        self.idle_max
    }

    /// A link that has been used before and that the server has not closed.
    pub fn take_idle(&self) -> Option<Arc<Owned>> {
        if !self.keeps() {
            return None;
        }
        loop {
            let socket = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            // Anything that came was asked for by nobody.
            if net::has_input(&*socket).is_none() {
                return Some(socket);
            }
        }
    }

    /// Keeps a link for another request, if there is room.
    pub fn keep(&self, socket: Arc<Owned>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < self.idle_max {
            idle.push(socket);
        }
    }

    /// Begins to connect. Never blocks: what becomes of it is seen by the first send.
    pub fn connect(&self) -> Result<Arc<Owned>, (Failure, String)> {
        let socket = net::begin_to_connect(&self.server).map_err(|error| not_connected(&error))?;
        if let Some(mark) = &self.mark {
            mark.check(&socket).map_err(|why| (Failure::Down, why.into()))?;
        }
        Ok(Arc::new(socket))
    }
}

/// Why nobody is there to be asked.
pub(super) fn not_connected(error: &io::Error) -> (Failure, String) {
    let failure = match error.kind() {
        // The queue of a server at a Unix-domain socket is full.
        io::ErrorKind::WouldBlock => Failure::Busy,
        _ if net::is_out_of_descriptors(error) => Failure::Busy,
        _ => Failure::Down,
    };
    (failure, format!("its server cannot be reached: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    #[test]
    fn as_many_links_are_kept_as_may_be_and_none_that_has_ended_or_has_something_to_say() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let upstream = Upstream::new(Server::Unix(path.clone()), 3, Places::new(None, 0));
        let mut theirs = Vec::new();
        for _ in 0..4 {
            upstream.keep(upstream.connect().unwrap());
            theirs.push(listener.accept().unwrap().0);
        }
        let has_ended = |mut far: &std::os::unix::net::UnixStream| {
            far.set_nonblocking(true).unwrap();
            matches!(std::io::Read::read(&mut far, &mut [0]), Ok(0))
        };
        assert_eq!(theirs.iter().map(has_ended).collect::<Vec<_>>(), [false, false, false, true]);
        theirs[2].write_all(b"x").unwrap();
        drop(theirs.remove(1));
        let first = upstream.take_idle().expect("the first is as it was");
        assert!(upstream.take_idle().is_none());
        drop(first);
        assert!(has_ended(&theirs[0]));
        drop(listener);
        let (failure, why) = upstream.connect().unwrap_err();
        assert_eq!(failure, Failure::Down, "{why}");
        std::fs::remove_file(path).unwrap();
        assert_eq!(upstream.connect().unwrap_err().0, Failure::Down);
    }
}
