//! The listening sockets: the master makes every one of them and keeps it across generations of
//! workers, so that no connection is lost in an accept queue while workers come and go.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flyball_arch::settings::{Listen, Settings};
use flyball_arch::share::{Share, cpu_of_worker};
use flyball_arch::worker::BLOCKING_TICK_MS;
use flyball_arch::{Architecture, Listener};
use flyball_observe::queues::Queues;
use flyball_sys::net::{self, Address, Endpoint, ListenOptions};
use flyball_sys::node::Node;
use flyball_sys::sandbox::Identity;

use crate::handover::Given;
use crate::tls::Tls;

/// Seconds for which the kernel holds back a connection that sends nothing.
const DEFER_ACCEPT_S: u32 = 5;

/// Longest wait for the connections in the accept queue of an address that is left.
const LAST_ACCEPTS_MS_MAX: u64 = 1_000;

/// Why a socket keeps its mode: its name may have been given to another since it was made.
const OTHER_SOCKET: &str = "the socket there has another mode or group and may not be the \
                            server's: nothing was changed; a restart makes it again";

/// The setting that has workers divide the addresses among them.
const BY_ADDRESS: &str = "accept.by-address";

/// One address and the sockets that are bound to it: as many as any generation wanted, since one
/// that is closed would take its accept queue with it.
#[derive(Clone, Debug)]
struct Bound {
    /// As it stands in the settings; its port may be 0.
    asked: Endpoint,
    /// The address that was found, and what is spoken and served there.
    listen: Listen,
    /// The number of the hosts that are served there; 0 is all.
    hosts: u16,
    sockets: Vec<Arc<OwnedFd>>,
    /// They were made by the process that started this one.
    is_given: bool,
    /// They are lent: their owner goes on listening when the server ends, and has their name.
    is_lent: bool,
    /// Which file the name of a Unix-domain socket leads to, once that was seen.
    node: Option<Node>,
}

/// The listening sockets of a server.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    bound: Vec<Bound>,
    /// Addresses that are listened on no more: their ports stay taken until those have ended who
    /// hold the sockets too, and can be listened on again. What is lent is kept for that.
    left: Vec<Bound>,
}

impl Listening {
    /// Binds one socket to every address that is not among the inherited sockets; those that are
    /// bound here do not listen yet. The first socket of an address is bound without
    /// SO_REUSEPORT, so that a port which another program holds is seen.
    ///
    /// # Errors
    /// With a message for the operator: a taken port, a missing right.
    pub(crate) fn bind(settings: &Settings, inherited: Vec<Given>) -> Result<Listening, String> {
        let known = |Given { asked, sockets, is_lent, node }: Given| {
            let sockets: Vec<_> = sockets.into_iter().map(Arc::new).collect();
            let first = sockets.first()?;
            let found = net::local_address(&**first).map(Endpoint::Tcp);
            let listen = found.unwrap_or_else(|_| asked.clone()).into();
            Some(Bound { asked, listen, hosts: 0, sockets, is_given: true, is_lent, node })
        };
        let bound = inherited.into_iter().filter_map(known).collect();
        Listening { bound, left: Vec::new() }.rebound(settings)
    }

    /// The addresses as they were asked for, with their sockets.
    pub(crate) fn handed_over(&self) -> impl Iterator<Item = (&Endpoint, Vec<&OwnedFd>)> {
        let kept = self.left.iter().filter(|bound| bound.is_lent);
        let all = self.bound.iter().chain(kept);
        all.map(|bound| (&bound.asked, bound.sockets.iter().map(AsRef::as_ref).collect()))
    }

    /// Which files the names of Unix-domain sockets lead to, by their addresses as they were asked
    /// for.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&Endpoint, Node)> {
        let own = self.bound.iter().filter(|bound| !bound.is_lent);
        own.filter_map(|bound| bound.name().map(|(_, node)| (&bound.asked, node)))
    }

    /// The addresses whose sockets are lent.
    pub(crate) fn lent(&self) -> impl Iterator<Item = &Endpoint> {
        let all = self.bound.iter().chain(&self.left);
        all.filter(|bound| bound.is_lent).map(|bound| &bound.asked)
    }

    /// Whether any of those that are listened on is lent.
    pub(crate) fn has_lent(&self) -> bool {
        self.bound.iter().any(|bound| bound.is_lent)
    }

    /// The addresses that were lent and that the settings do not list.
    pub(crate) fn unlisted(&self) -> impl Iterator<Item = &Endpoint> {
        self.left.iter().filter(|bound| bound.is_lent).map(|bound| &bound.listen.address)
    }

    /// The sockets for other settings: those of addresses that stay are the same, new addresses are
    /// bound, and those that are not listed any more are left, not closed. Nothing is changed.
    ///
    /// # Errors
    /// As [`Listening::bind`].
    pub(crate) fn rebound(&self, settings: &Settings) -> Result<Listening, String> {
        // The name of a Unix-domain socket that was left leads to none any more.
        let left = self.left.iter().filter(|bound| bound.is_lent || bound.path().is_none());
        let mut known: Vec<&Bound> = self.bound.iter().chain(left).collect();
        let mut bound = Vec::new();
        for wanted in &settings.listen {
            let asked = &wanted.address;
            let is_it = |bound: &&Bound| bound.asked == *asked || bound.listen.address == *asked;
            let is_there = |bound: &&Bound| bound.is_lent || bound.is_there();
            let place = known.iter().position(|bound| is_it(bound) && is_there(bound));
            let found = match place {
                Some(at) => known.remove(at).clone(),
                None => match bind(wanted, settings) {
                    Ok(made) => made,
                    Err(why) => {
                        let so_far = Listening { bound, left: Vec::new() };
                        remove_names(&so_far.names_beside(self));
                        return Err(why);
                    }
                },
            };
            let listen = Listen { address: found.listen.address.clone(), ..wanted.clone() };
            bound.push(Bound { listen, hosts: settings.number_of_hosts(wanted), ..found });
        }
        let left = known.into_iter().cloned().collect();
        Ok(Listening { bound, left })
    }

    /// The names of Unix-domain sockets that `before` has not, and which files they are: they were
    /// made for this.
    pub(crate) fn names_beside(&self, before: &Listening) -> Vec<(PathBuf, Node)> {
        let names = self.bound.iter().filter_map(Bound::name);
        let is_new = |name: &(&Path, Node)| !before.bound.iter().any(|b| b.name() == Some(*name));
        names.filter(is_new).map(|(path, node)| (path.to_owned(), node)).collect()
    }

    /// Removes the names of all Unix-domain sockets, unless they are lent: the server stops, and
    /// what has connected is still accepted.
    pub(crate) fn remove_names(&self) {
        self.bound.iter().for_each(Bound::remove_name);
    }

    /// Removes the names of those that were made here: what was handed over is another's for now.
    pub(crate) fn remove_made(&self) {
        self.bound.iter().filter(|bound| !bound.is_given).for_each(Bound::remove_name);
    }

    /// Closes the accept queues of the addresses that are left; who connects is refused from
    /// now on. Before that, new connections are kept away until those that wait in the queues have
    /// been accepted, or until [`LAST_ACCEPTS_MS_MAX`] is over: to be called while workers accept
    /// from them. What is lent is not touched.
    pub(crate) fn leave(&self) {
        let own = || self.left.iter().filter(|bound| !bound.is_lent);
        own().for_each(Bound::remove_name);
        let sockets: Vec<&OwnedFd> =
            own().flat_map(|bound| &bound.sockets).map(AsRef::as_ref).collect();
        for socket in &sockets {
            net::ignore_newcomers(socket);
        }
        net::wait_for_accepts(&sockets, LAST_ACCEPTS_MS_MAX);
        for socket in &sockets {
            net::stop_listening(socket);
        }
    }

    /// Closes the sockets of addresses that are left, but for what is lent.
    pub(crate) fn forget_left(&mut self) {
        self.left.retain(|bound| bound.is_lent);
    }

    /// In a child, which is not asked to listen on them again: closes all of these.
    pub(crate) fn close_left(&mut self) {
        self.left.clear();
    }

    /// In a worker that has its own of them: closes the others here.
    pub(crate) fn forget(&mut self) {
        (self.bound, self.left) = (Vec::new(), Vec::new());
    }

    /// The addresses, with the ports that were found, and what is spoken and served there.
    pub(crate) fn listens(&self) -> Vec<Listen> {
        self.bound.iter().map(|bound| bound.listen.clone()).collect()
    }

    /// The ports at which clients speak TLS, each with the number of the hosts that are served
    /// there.
    pub(crate) fn tls_ports(&self) -> Vec<(u16, u16)> {
        let speaking = self.bound.iter().filter(|bound| bound.listen.tls);
        let port = |bound: &Bound| Some((bound.hosts, bound.listen.address.tcp()?.port()));
        speaking.filter_map(port).collect()
    }

    /// The sockets that no other owns.
    pub(crate) fn own(&self) -> impl Iterator<Item = &Arc<OwnedFd>> {
        let own = self.bound.iter().filter(|bound| !bound.is_lent);
        own.flat_map(|bound| &bound.sockets)
    }

    /// Every socket there is.
    pub(crate) fn all(&self) -> Vec<Arc<OwnedFd>> {
        self.bound.iter().flat_map(|bound| &bound.sockets).cloned().collect()
    }

    /// Sees to it that the names of Unix-domain sockets have their modes and groups: what was
    /// handed over stays as it is, since the master before may go on with it.
    ///
    /// # Errors
    /// With a message: one has others, or another socket has its name.
    pub(crate) fn guard(&mut self, settings: &Settings) -> Result<(), String> {
        // Those that are left have a name to be removed, which a version before did not tell.
        for bound in self.left.iter_mut().filter(|bound| !bound.is_lent && bound.node.is_none()) {
            bound.node = bound.path().and_then(|path| net::unix_node(path).ok());
        }
        self.bound.iter_mut().try_for_each(|bound| {
            let address = bound.listen.address.clone();
            bound.look(settings).map_err(|error| format!("cannot listen on {address}: {error}"))
        })
    }

    /// Makes the sockets what an architecture needs: as many for each address as it has groups of
    /// workers, blocking or not, listening. True when there are more than before.
    ///
    /// # Errors
    /// With a message: descriptors are out, an option is unknown.
    pub(crate) fn prepare(
        &mut self,
        architecture: &dyn Architecture,
        settings: &Settings,
    ) -> Result<bool, String> {
        let wanted = architecture.sockets_wanted(settings).max(1);
        // As many for each address: those of one that is new are divided as those of the others.
        let most = self.bound.iter().map(|bound| bound.sockets.len()).max();
        let each = most.unwrap_or(1).max(wanted);
        let mut grew = false;
        let addresses = self.bound.len();
        let by_address = settings.by_address && architecture.honours(BY_ADDRESS);
        for (number, bound) in self.bound.iter_mut().enumerate() {
            let address = bound.listen.address.clone();
            let fail = |error: io::Error| format!("cannot listen on {address}: {error}");
            let Endpoint::Tcp(port) = address else {
                bound.guard(settings).map_err(fail)?;
                // All readers share it.
                net::set_nonblocking(&*bound.sockets[0], !architecture.listener_blocks())
                    .and_then(|()| listen(&*bound.sockets[0], settings))
                    .map_err(fail)?;
                continue;
            };
            if each > bound.sockets.len() {
                net::share_port(&*bound.sockets[0]).map_err(fail)?;
            }
            while bound.sockets.len() < each {
                let another = match net::bind(port, true) {
                    // The first one was handed over, and its port is not shared.
                    Err(_) if bound.is_given => break,
                    another => another.map_err(fail)?,
                };
                bound.sockets.push(Arc::new(another));
                grew = true;
            }
            let share = |reader| Share::of(number, addresses, reader, wanted, by_address);
            for (at, socket) in bound.sockets.iter().enumerate() {
                let is_read = |reader: &usize| share(*reader).is_some_and(|share| share.reads(at));
                let reader = (0..wanted).find(is_read).unwrap_or(at % wanted);
                let cpu = cpu_of_worker(settings, reader).filter(|_| settings.incoming_cpu);
                if let Some(cpu) = cpu.filter(|_| !architecture.sockets_are_shared()) {
                    net::prefer_cpu(&**socket, cpu as u32).map_err(fail)?;
                }
                net::admit_newcomers(&**socket);
                net::set_nonblocking(&**socket, !architecture.listener_blocks()).map_err(fail)?;
                listen(socket, settings).map_err(fail)?;
            }
        }
        Ok(grew)
    }

    /// The sockets that worker `index` of `workers` reads. Those of a larger generation before this
    /// one are divided among its workers, so that no queue is left alone.
    pub(crate) fn of_worker(
        &self,
        architecture: &dyn Architecture,
        settings: &Settings,
        (index, workers): (usize, usize),
        tls: Option<&Tls>,
        queues: &Arc<Queues>,
    ) -> Vec<Listener> {
        let asks_ages = settings.asks_ages();
        let mut before = 0;
        let by_address = settings.by_address && architecture.honours(BY_ADDRESS);
        let sockets = self.bound.iter().enumerate().flat_map(|(number, bound)| {
            let of = bound.sockets.len();
            let first = before;
            before += of;
            let share = Share::of(number, self.bound.len(), index, workers, by_address);
            let own = move |at: usize| {
                let own = share.is_some_and(|share| share.reads_of(at, of));
                architecture.sockets_are_shared() || own
            };
            let is_shared = match architecture.sockets_are_shared() {
                true => workers > 1,
                false => share.is_some_and(|share| share.is_shared(of)),
            };
            let Bound { listen, hosts, .. } = bound;
            // Where TLS is to be spoken nothing else ever is.
            let spoken = match listen.tls {
                false => Some(None),
                true => tls.and_then(|tls| tls.at(&listen.address, *hosts).ok()).map(Some),
            };
            let sockets = bound.sockets.iter().enumerate().filter(move |(at, _)| own(*at));
            sockets.filter_map(move |(at, socket)| {
                let listener = Listener::new(Arc::clone(socket), spoken.clone()?);
                let listener = listener.of_address(number).serving(*hosts).shared(is_shared);
                let listener = listener.asking_ages(asks_ages).seen_in(queues, first + at);
                Some(listener.over_unix(bound.path().is_some()))
            })
        });
        sockets.collect()
    }
}

/// Listens, or listens again after a worker stopped it.
///
/// # Errors
/// When the kernel refuses an option, such as a congestion control that it does not have.
pub(crate) fn listen(socket: impl AsFd, settings: &Settings) -> io::Result<()> {
    net::listen(
        socket,
        settings.backlog,
        &ListenOptions {
            defer_accept_s: if settings.defer_accept { DEFER_ACCEPT_S } else { 0 },
            congestion: settings.congestion.clone(),
            // It matters to calls that block; a connection that is accepted by another generation
            // than the one that it found listening needs it as well.
            timeout: Some(Duration::from_millis(BLOCKING_TICK_MS)),
            delay: !settings.no_delay,
            send_buffer: settings.send_buffer,
            receive_buffer: settings.receive_buffer,
            pacing: settings.bandwidth,
        },
    )
}

impl Bound {
    /// The name of a Unix-domain socket.
    fn path(&self) -> Option<&Path> {
        self.listen.address.unix()
    }

    /// The same, and which file it is.
    fn name(&self) -> Option<(&Path, Node)> {
        Some((self.path()?, self.node?))
    }

    /// Whether clients still find it: the name of a Unix-domain socket can be removed, or be given
    /// to another.
    fn is_there(&self) -> bool {
        let Some(path) = self.path() else { return true };
        net::unix_node(path).is_ok_and(|node| self.node.is_none_or(|known| known == node))
    }

    /// Removes the name of a Unix-domain socket if it still leads to it.
    fn remove_name(&self) {
        if let Some((path, node)) = self.name() {
            net::unlink_unix(path, node);
        }
    }

    /// Looks whether the name of a Unix-domain socket has its mode and group, and changes nothing.
    fn look(&mut self, settings: &Settings) -> io::Result<()> {
        // One that is known would be changed; where none is, it must be right already.
        let known = self.node.take();
        self.guard(settings)?;
        if known.is_some_and(|known| self.node.is_some_and(|node| node != known)) {
            return Err(io::Error::other(OTHER_SOCKET));
        }
        self.node = self.node.or(known);
        Ok(())
    }

    /// Gives the name of a Unix-domain socket its mode and group, which may be others than when it
    /// was made. A name that was removed meanwhile, or that another has by now, is left alone, and
    /// one that is lent is its owner's.
    fn guard(&mut self, settings: &Settings) -> io::Result<()> {
        let Some(path) = self.path().filter(|_| !self.is_lent) else { return Ok(()) };
        let group = group_of(&self.listen, settings).map_err(io::Error::other)?;
        match net::guard_unix(path, self.listen.mode, group, self.node) {
            Ok(node) => self.node = Some(node),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.node.is_some() => {}
            Err(error) => return Err(io::Error::other(explain_guard(&error))),
        }
        Ok(())
    }
}

/// Removes these names of Unix-domain sockets, as far as they still lead to these files.
pub(crate) fn remove_names(names: &[(PathBuf, Node)]) {
    names.iter().for_each(|(path, own)| net::unlink_unix(path, *own));
}

fn bind(wanted: &Listen, settings: &Settings) -> Result<Bound, String> {
    let asked = wanted.address.clone();
    let fail = |why: String| format!("cannot listen on {asked}: {why}");
    let mut node = None;
    let (address, socket) = match &asked {
        Endpoint::Tcp(address) => {
            let first = bind_first_free(*address, settings.running.port_tries);
            let first = first.map_err(|error| fail(explain(&error)))?;
            let found = net::local_address(&first).map_err(|error| fail(error.to_string()))?;
            (found.into(), first)
        }
        Endpoint::Unix(path) => {
            let group = group_of(wanted, settings)?;
            let socket = net::bind_unix_at(path, wanted.mode, group);
            let socket = socket.map_err(|error| fail(explain_unix(&error)))?;
            let made = net::guard_unix(path, wanted.mode, group, None);
            node = Some(made.map_err(|error| fail(explain_guard(&error)))?);
            (asked.clone(), socket)
        }
    };
    let (listen, sockets) = (Listen::from(address), vec![Arc::new(socket)]);
    let (is_given, is_lent) = (false, false);
    Ok(Bound { asked, listen, hosts: 0, sockets, is_given, is_lent, node })
}

/// The number of the group of a Unix-domain socket.
fn group_of(listen: &Listen, settings: &Settings) -> Result<u32, String> {
    let found = group_or_own(listen.group.as_deref());
    found.map_err(|why| settings.blame("listener.group", why))
}

/// The number of the group of this name, or of the process's own if none is given: a reload may
/// take back what was given, and a directory may have a group of its own (setgid).
///
/// # Errors
/// When there is none of this name.
pub(crate) fn group_or_own(name: Option<&str>) -> Result<u32, String> {
    let Some(name) = name else { return Ok(Identity::own().group) };
    let found = Identity::find(&Identity::own().user.to_string(), Some(name));
    found.map(|identity| identity.group)
}

fn bind_first_free(address: Address, tries: u16) -> io::Result<OwnedFd> {
    let mut attempt = address;
    loop {
        match net::bind(attempt, false) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && attempt.port() < u16::MAX
                    && attempt.port() - address.port() < tries =>
            {
                attempt.set_port(attempt.port() + 1);
            }
            bound => return bound,
        }
    }
}

/// A failed bind of a Unix-domain socket in the operator's terms.
pub(crate) fn explain_unix(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another server listens there".into(),
        _ => error.to_string(),
    }
}

/// Why a Unix-domain socket does not get its mode and group, in the operator's terms.
pub(crate) fn explain_guard(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AlreadyExists => OTHER_SOCKET.into(),
        _ => error.to_string(),
    }
}

/// A failed bind in the operator's terms.
pub(crate) fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "the port is taken by another program".into(),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".into(),
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need the CAP_NET_BIND_SERVICE capability".into()
        }
        _ => error.to_string(),
    }
}
