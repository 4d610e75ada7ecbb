//! The simulated kernel: the calls of `flyball_sys`, which a world answers where one lies below the
//! thread and knows the descriptor. All others go to the machine's kernel.

use std::os::fd::{AsFd, AsRawFd};

use super::world::{Source, World, with};

/// What the world below this thread does with the connection of a socket, if it has that.
fn on_line<R>(socket: impl AsFd, f: impl FnOnce(&mut World, usize) -> R) -> Option<R> {
    let fd = socket.as_fd().as_raw_fd();
    with(|world| match world.source(fd)? {
        Source::Line(at) => Some(f(world, at)),
        Source::Listener | Source::Disk | Source::Signals => None,
    })
    .flatten()
}

/// Clocks.
pub(crate) mod clock {
    use super::with;

    pub(crate) fn monotonic_ns() -> u64 {
        with(|world| world.now_ns()).unwrap_or_else(flyball_sys::clock::monotonic_ns)
    }

    pub(crate) fn monotonic_ms() -> u64 {
        with(|world| world.now_ms()).unwrap_or_else(flyball_sys::clock::monotonic_ms)
    }

    pub(crate) fn unix_ms() -> u64 {
        with(|world| world.unix_ms).unwrap_or_else(flyball_sys::clock::unix_ms)
    }
}

/// Event mechanisms.
pub(crate) mod readiness {
    pub(crate) use flyball_sys::readiness::*;
    use std::io;

    pub(crate) fn open(name: &str) -> io::Result<Box<dyn Readiness>> {
        super::super::watch::open(name).map_or_else(|| flyball_sys::readiness::open(name), Ok)
    }
}

/// Completion rings.
pub(crate) mod uring {
    pub(crate) use super::super::ring::*;
}

/// Signals.
pub(crate) mod signal {
    use super::with;
    pub(crate) use flyball_sys::signal::Signal;
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    /// Those of a world, by a descriptor that it knows.
    #[derive(Debug)]
    pub struct Signals(OwnedFd);

    impl Signals {
        pub(crate) fn block() -> io::Result<Signals> {
            let signals = Signals(UnixStream::pair()?.0.into());
            with(|world| world.set_signals(&signals.0));
            Ok(signals)
        }

        pub(crate) fn next(&self) -> Option<Signal> {
            with(|world| world.orders.pop_front()).flatten()
        }
    }

    impl AsFd for Signals {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}

/// Files.
pub(crate) mod file {
    use super::on_line;
    pub(crate) use flyball_sys::file::*;
    use std::io::{self, IoSlice};
    use std::os::fd::AsFd;

    pub(crate) fn send_file(
        socket: impl AsFd,
        file: impl AsFd,
        offset: u64,
        count: usize,
    ) -> io::Result<usize> {
        let sent = on_line(&socket, |world, at| {
            // A socket that blocks takes the rest in the same call.
            let most = if world.lines[at].blocks { count } else { world.lines[at].room().max(1) };
            let mut bytes = vec![0; count.min(most)];
            let read = read_at(&file, &mut bytes, offset)?;
            if read == 0 {
                return Ok(0);
            }
            let sent = world.send(at, &mut [IoSlice::new(&bytes[..read])], false);
            if read < count {
                world.lines[at].set_full();
            }
            sent
        });
        sent.unwrap_or_else(|| flyball_sys::file::send_file(socket, file, offset, count))
    }
}

/// Sockets.
pub(crate) mod net {
    use super::{Source, World, on_line, with};
    pub(crate) use flyball_sys::net::*;
    use flyball_sys::owned::{Opening, Owned};
    use flyball_sys::readiness::Interest;
    use std::io::{self, ErrorKind, IoSlice};
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

    pub(crate) fn accept(socket: impl AsFd, nonblocking: bool) -> io::Result<(Owned, Address)> {
        accept_within(&Opening::begin(), socket, nonblocking)
    }

    pub(crate) fn accept_within(
        opening: &Opening,
        listener: impl AsFd,
        nonblocking: bool,
    ) -> io::Result<(Owned, Address)> {
        let fd = listener.as_fd().as_raw_fd();
        let accepted = with(|world| match world.source(fd)? {
            Source::Listener => Some(world.accept(!nonblocking)),
            Source::Line(_) | Source::Disk | Source::Signals => None,
        });
        match accepted.flatten() {
            None => flyball_sys::net::accept_within(opening, listener, nonblocking),
            Some(None) => Err(ErrorKind::WouldBlock.into()),
            Some(Some(accepted)) => accepted.map(|(near, peer)| (opening.own(near), peer)),
        }
    }

    pub(crate) fn begin_to_connect(server: &Endpoint) -> io::Result<Owned> {
        match with(World::connect) {
            Some(near) => near.map(Owned::from),
            None => flyball_sys::net::begin_to_connect(server),
        }
    }

    pub(crate) fn accept_queue(socket: impl AsFd) -> io::Result<(u32, u32)> {
        let fd = socket.as_fd().as_raw_fd();
        let queued = with(|world| {
            let is_listener = world.source(fd) == Some(Source::Listener);
            is_listener.then(|| world.queued() as u32)
        });
        match queued.flatten() {
            Some(queued) => Ok((queued, u32::MAX)),
            None => flyball_sys::net::accept_queue(socket),
        }
    }

    pub(crate) fn recv(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
        let received = on_line(&socket, |world, at| world.receive(at, buffer, false));
        received.unwrap_or_else(|| flyball_sys::net::recv(socket, buffer))
    }

    pub(crate) fn recv_now(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
        let received = on_line(&socket, |world, at| world.receive(at, buffer, true));
        received.unwrap_or_else(|| flyball_sys::net::recv_now(socket, buffer))
    }

    pub(crate) fn wait_for_two(
        two: [(BorrowedFd<'_>, Interest); 2],
        timeout_ms: u64,
    ) -> io::Result<[bool; 2]> {
        let found = with(|world| {
            let at = |world: &World, fd: BorrowedFd<'_>| match world.source(fd.as_raw_fd())? {
                Source::Line(at) => Some(at),
                _ => None,
            };
            let both = [at(world, two[0].0)?, at(world, two[1].0)?];
            Some(world.wait_for_two(both, two.map(|(_, interest)| interest), timeout_ms))
        });
        match found.flatten() {
            Some(found) => Ok(found),
            None => flyball_sys::net::wait_for_two(two, timeout_ms),
        }
    }

    pub(crate) fn send_gather(
        socket: impl AsFd,
        slices: &[IoSlice<'_>],
        more: bool,
    ) -> io::Result<usize> {
        let sent = on_line(&socket, |world, at| world.send(at, &mut slices.to_vec(), false));
        sent.unwrap_or_else(|| flyball_sys::net::send_gather(socket, slices, more))
    }

    pub(crate) fn send_gather_now(
        socket: impl AsFd,
        slices: &[IoSlice<'_>],
        more: bool,
    ) -> io::Result<usize> {
        let sent = on_line(&socket, |world, at| world.send(at, &mut slices.to_vec(), true));
        sent.unwrap_or_else(|| flyball_sys::net::send_gather_now(socket, slices, more))
    }

    pub(crate) fn set_cork(socket: impl AsFd, corked: bool) -> io::Result<()> {
        on_line(&socket, |_, _| ()).map_or_else(|| flyball_sys::net::set_cork(socket, corked), Ok)
    }

    pub(crate) fn acknowledge(socket: impl AsFd) -> io::Result<()> {
        let told = on_line(&socket, |world, _| world.called());
        told.map_or_else(|| flyball_sys::net::acknowledge(socket), Ok)
    }

    pub(crate) fn set_pacing(socket: impl AsFd, bytes_per_s: u64) -> io::Result<()> {
        let set = on_line(&socket, |world, _| world.called());
        set.map_or_else(|| flyball_sys::net::set_pacing(socket, bytes_per_s), Ok)
    }

    pub(crate) fn set_unsent(socket: impl AsFd, bytes: u32) -> io::Result<()> {
        let set = on_line(&socket, |world, _| world.called());
        set.map_or_else(|| flyball_sys::net::set_unsent(socket, bytes), Ok)
    }

    pub(crate) fn set_nonblocking(socket: impl AsFd, on: bool) -> io::Result<()> {
        let set = on_line(&socket, |world, at| world.lines[at].blocks = !on);
        set.map_or_else(|| flyball_sys::net::set_nonblocking(socket, on), Ok)
    }

    pub(crate) fn shutdown_write(socket: impl AsFd) -> io::Result<()> {
        let shut = on_line(&socket, |world, at| {
            world.called();
            world.lines[at].shut();
        });
        shut.map_or_else(|| flyball_sys::net::shutdown_write(socket), Ok)
    }

    pub(crate) fn reset_on_close(socket: impl AsFd) -> io::Result<()> {
        let set = on_line(&socket, |world, at| world.lines[at].resets = true);
        set.map_or_else(|| flyball_sys::net::reset_on_close(socket), Ok)
    }

    pub(crate) fn unacknowledged(socket: impl AsFd) -> u64 {
        let queued = on_line(&socket, |world, at| world.lines[at].unacknowledged());
        queued.unwrap_or_else(|| flyball_sys::net::unacknowledged(socket))
    }

    pub(crate) fn untaken(socket: impl AsFd) -> u64 {
        let queued = on_line(&socket, |world, at| world.lines[at].untaken());
        queued.unwrap_or_else(|| flyball_sys::net::untaken(socket))
    }

    pub(crate) fn has_input(socket: impl AsFd) -> Option<bool> {
        let has = on_line(&socket, |world, at| {
            world.called();
            let is_closed = world.fault.ends_rest() && world.is_at_rest(Source::Line(at));
            if is_closed { Some(false) } else { world.lines[at].has_input() }
        });
        has.unwrap_or_else(|| flyball_sys::net::has_input(socket))
    }

    pub(crate) fn wait_either(socket: impl AsFd, timeout_ms: u64) -> io::Result<(bool, bool)> {
        let found = on_line(&socket, |world, at| {
            let state = world.wait_for(at, timeout_ms, |state| state.read || state.write);
            (state.read || state.hangup, state.write || state.hangup)
        });
        found.map_or_else(|| flyball_sys::net::wait_either(socket, timeout_ms), Ok)
    }

    pub(crate) fn wait_readable(fd: impl AsFd, timeout_ms: u64) -> io::Result<bool> {
        let found =
            on_line(&fd, |world, at| world.wait_for(at, timeout_ms, |state| state.read).read);
        found.map_or_else(|| flyball_sys::net::wait_readable(fd, timeout_ms), Ok)
    }

    pub(crate) fn wait_writable(fd: impl AsFd, timeout_ms: u64) -> io::Result<bool> {
        let found =
            on_line(&fd, |world, at| world.wait_for(at, timeout_ms, |state| state.write).write);
        found.map_or_else(|| flyball_sys::net::wait_writable(fd, timeout_ms), Ok)
    }

    pub(crate) fn wait_for_failure(fd: impl AsFd, timeout_ms: u64) -> io::Result<bool> {
        let found =
            on_line(&fd, |world, at| world.wait_for(at, timeout_ms, |state| state.hangup).hangup);
        found.map_or_else(|| flyball_sys::net::wait_for_failure(fd, timeout_ms), Ok)
    }
}
