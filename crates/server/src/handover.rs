//! What a master is given by the process that started it: listening sockets of the master whose
//! place it takes, or of systemd.
//!
//! A master that is replaced starts the new program with its listening sockets, its admin socket
//! and one end of a pair of message sockets open, and says which is which in the environment:
//!
//! ```text
//! FLYBALL_HANDOVER=1 ready=5 admin=6 tickets=10 127.0.0.1:80=7,8 unix:/run/a.sock=9
//! ```
//!
//! The first word is the version of the format. `ready` is the descriptor of the pair, and `admin`
//! that of the first admin socket; `admin.2` is the second. The others are addresses as they stand
//! in the settings, with the descriptors of their listening sockets.
//! Which of them are systemd's, lent for as long as a server runs, is said by their names in
//! `FLYBALL_HANDOVER_LENT`: a version that does not know it takes over all the same. So with which
//! files the names of Unix-domain sockets lead to, in `FLYBALL_HANDOVER_NAMES`: a name may be
//! another socket's by now. So with the certificates and lists in use, whose descriptor is
//! `FLYBALL_HANDOVER_CERTIFICATES`: what is in their files now may not hold.
//! Over the pair the new master says [`PREPARED`] when all that can fail has gone well, waits for
//! [`GO`], which says that no other accepts, and says [`READY`] when its workers run.

use std::env;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use flyball_arch::settings::{RunningSettings, Settings};
use flyball_sys::channel::Channel;
use flyball_sys::error_log::Level;
use flyball_sys::net::{self, Endpoint};
use flyball_sys::node::Node;
use flyball_sys::{inherit, process, say};

use crate::tls::Kept;

/// The variable that names what is handed over.
pub(crate) const VARIABLE: &str = "FLYBALL_HANDOVER";

/// The variable that names what of it is lent.
pub(crate) const LENT: &str = "FLYBALL_HANDOVER_LENT";

/// The variable that says what the admin sockets are, one [`AdminIs`] after the other, with commas
/// between them.
pub(crate) const ADMIN_IS: &str = "FLYBALL_HANDOVER_ADMIN";

/// The variable that says which files the names of Unix-domain sockets lead to, as device and
/// inode.
pub(crate) const NAMES: &str = "FLYBALL_HANDOVER_NAMES";

/// The variable that says which descriptor the certificates in use are in.
pub(crate) const CERTIFICATES: &str = "FLYBALL_HANDOVER_CERTIFICATES";

/// All variables of what a master hands over.
pub(crate) const VARIABLES: [&str; 5] = [VARIABLE, LENT, ADMIN_IS, NAMES, CERTIFICATES];

/// The word for the first admin socket. The others have their numbers behind it, from 2, which a
/// version that knows of one alone takes for no address.
const ADMIN: &str = "admin";

/// What the place of an admin socket begins with that follows from the machine.
const OWN: &str = "own:";

/// The variables of systemd's socket activation (sd_listen_fds(3)).
pub(crate) const SYSTEMD: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// The version of the format.
const VERSION: &str = "1";

/// What the path of a Unix-domain socket begins with.
const UNIX: &str = "unix:";

/// The first descriptor of socket activation.
const SYSTEMD_FIRST: RawFd = 3;

/// Most sockets of socket activation.
const SYSTEMD_MAX: i32 = 1024;

/// The new master has read its configuration and opened what it needs.
pub(crate) const PREPARED: &[u8] = b"prepared";

/// The workers of the master before accept no more.
pub(crate) const GO: &[u8] = b"go";

/// The workers of the new master run.
pub(crate) const READY: &[u8] = b"ready";

/// Whether this process was started with secrets, in memory whose descriptors the environment
/// names: the certificates in use with their keys, and roots of tickets.
pub fn has_secrets() -> bool {
    let certificates = env::var_os(CERTIFICATES).is_some_and(|told| !told.is_empty());
    certificates || env::var(VARIABLE).is_ok_and(|told| told.contains(" tickets="))
}

/// Sockets that this process was started with.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    /// The way to the master whose place is taken.
    pub(crate) before: Option<Channel>,
    /// Admin sockets.
    pub(crate) admin: Vec<GivenAdmin>,
    /// Listening sockets.
    pub(crate) listening: Vec<Given>,
    /// What the master before has in use of what its clients connect by.
    pub(crate) kept: Kept,
}

/// Listening sockets of one address.
#[derive(Debug)]
pub(crate) struct Given {
    /// The address as it was asked for, or that they are bound to.
    pub(crate) asked: Endpoint,
    pub(crate) sockets: Vec<OwnedFd>,
    /// Whether they are lent: their owner goes on listening when the server ends.
    pub(crate) is_lent: bool,
    /// Which file the name of a Unix-domain socket leads to, if the master before has said so.
    pub(crate) node: Option<Node>,
}

/// An admin socket.
#[derive(Debug)]
pub(crate) struct GivenAdmin {
    pub(crate) socket: OwnedFd,
    /// What it is, if the master before has said so.
    pub(crate) is: Option<AdminIs>,
    /// Which file its name leads to, the same.
    pub(crate) node: Option<Node>,
    /// Whether it is lent.
    pub(crate) is_lent: bool,
}

/// Where an admin socket is, and who may connect to it: it is handed over as it is, whatever the
/// settings of the new master say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdminIs {
    /// Whether its place follows from the machine.
    pub(crate) is_own: bool,
    /// As it was asked for.
    pub(crate) endpoint: Endpoint,
    /// Mode and group of one in the file system; empty otherwise.
    guard: String,
}

impl AdminIs {
    /// One at this place by these settings.
    pub(crate) fn new(is_own: bool, endpoint: &Endpoint, settings: &Settings) -> AdminIs {
        let RunningSettings { admin_mode, admin_group, .. } = &settings.running;
        let group = admin_group.as_deref().unwrap_or_default();
        let guard = endpoint.unix().map(|_| format!(" {admin_mode:04o} {group}"));
        AdminIs { is_own, endpoint: endpoint.clone(), guard: guard.unwrap_or_default() }
    }

    fn write(&self) -> String {
        let own = if self.is_own { OWN } else { "" };
        format!("{own}{}{}", write_endpoint(&self.endpoint), self.guard)
    }

    fn read(text: &str) -> Option<AdminIs> {
        let rest = text.strip_prefix(OWN);
        let (is_own, rest) = (rest.is_some(), rest.unwrap_or(text));
        let (endpoint, guard) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
        Some(AdminIs { is_own, endpoint: read_endpoint(endpoint)?, guard: guard.to_owned() })
    }
}

/// Whether these settings want another admin socket than what was handed over, where both have one.
pub(crate) fn differ(given: &[GivenAdmin], settings: &Settings) -> bool {
    let told: Vec<&AdminIs> = given.iter().filter_map(|given| given.is.as_ref()).collect();
    let wanted = settings.admin_endpoints().map(|one| AdminIs::new(false, one, settings));
    let wanted: Vec<AdminIs> = wanted.collect();
    let (own, named): (Vec<&AdminIs>, Vec<&AdminIs>) = told.iter().partition(|is| is.is_own);
    let is_other = |is: &&AdminIs| **is != AdminIs::new(true, &is.endpoint, settings);
    settings.admin_directory().is_some() && own.iter().any(is_other)
        || !named.is_empty() && !wanted.is_empty() && !named.into_iter().eq(&wanted)
}

impl Inherited {
    /// What the environment of this process tells of; nothing in most cases. To be called once,
    /// before this process opens anything.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn of_process() -> Result<Inherited, String> {
        let inherited = Inherited::told_of()?;
        // What else the server was started with is not its own, and no child's either.
        inherit::close_rest();
        Ok(inherited)
    }

    fn told_of() -> Result<Inherited, String> {
        let text = |name: &str| std::env::var(name).ok();
        if let Some(told) = text(VARIABLE) {
            let inherited = parse(&told).map_err(|why| format!("{VARIABLE}={told}: {why}"))?;
            let inherited = inherited.lent(&text(LENT).unwrap_or_default());
            let inherited = inherited.asked(&text(ADMIN_IS).unwrap_or_default());
            let mut inherited = inherited.named(&text(NAMES).unwrap_or_default());
            if let Some(memory) = take_certificates(&text(CERTIFICATES).unwrap_or_default()) {
                inherited.kept.take_certificates(memory);
            }
            return Ok(inherited);
        }
        let [owner, count, names] = SYSTEMD.map(text);
        let is_ours = owner.is_some_and(|id| id == process::own_id().to_string());
        let count = count.filter(|_| is_ours).and_then(|count| count.parse().ok()).unwrap_or(0);
        let names = names.unwrap_or_default();
        let mut names = names.split(':');
        let mut inherited = Inherited::default();
        for at in 0..i32::min(count, SYSTEMD_MAX) {
            let name = names.next().unwrap_or_default();
            let fail = |why: &dyn std::fmt::Display| format!("socket {at} ({name}): {why}");
            let socket = inherit::take(SYSTEMD_FIRST + at).map_err(|error| fail(&error))?;
            let Ok(asked) = net::local_endpoint(&socket) else {
                let why = "has neither a port nor a path in the file system";
                say!(Level::Warn, "warning: socket {at} ({name}) {why}: it is not used");
                continue;
            };
            let (sockets, is_lent, node) = (vec![socket], true, None);
            inherited.listening.push(Given { asked, sockets, is_lent, node });
        }
        Ok(inherited)
    }

    /// The same, of which these are lent.
    fn lent(mut self, names: &str) -> Inherited {
        for name in names.split_ascii_whitespace() {
            if let Some(admin) = number_of(name).and_then(|at| self.admin.get_mut(at)) {
                admin.is_lent = true;
            }
            let Some(lent) = read_endpoint(name) else { continue };
            let of_it = self.listening.iter_mut().filter(|given| given.asked == lent);
            of_it.for_each(|given| given.is_lent = true);
        }
        self
    }

    /// The same, whose admin sockets are these.
    fn asked(mut self, told: &str) -> Inherited {
        for (admin, is) in self.admin.iter_mut().zip(told.split(',')) {
            admin.is = AdminIs::read(is);
        }
        self
    }

    /// The same, whose names lead to these files.
    fn named(mut self, names: &str) -> Inherited {
        for word in names.split_ascii_whitespace() {
            let Some((name, node)) = read_name(word) else { continue };
            if let Some(admin) = number_of(name).and_then(|at| self.admin.get_mut(at)) {
                admin.node = Some(node);
            }
            let Some(named) = read_endpoint(name) else { continue };
            let of_it = self.listening.iter_mut().filter(|given| given.asked == named);
            of_it.for_each(|given| given.node = Some(node));
        }
        self
    }

    /// Takes the one that is bound to a path of `admin`, if it is lent, for an admin socket: the
    /// last, if several are.
    pub(crate) fn lend_admin(&mut self, path: &Path) {
        let is_it = |given: &Given| given.is_lent && given.asked.unix() == Some(path);
        let Some(at) = self.listening.iter().rposition(is_it) else { return };
        let Given { asked: endpoint, mut sockets, node, is_lent } = self.listening.remove(at);
        let is = Some(AdminIs { is_own: false, endpoint, guard: String::new() });
        let socket = sockets.pop();
        self.admin.extend(socket.map(|socket| GivenAdmin { socket, is, node, is_lent }));
    }
}

fn parse(told: &str) -> Result<Inherited, String> {
    let mut words = told.split_ascii_whitespace();
    if words.next() != Some(VERSION) {
        return Err(format!("only version {VERSION} is known"));
    }
    let mut inherited = Inherited::default();
    for word in words {
        let (name, numbers) = word.rsplit_once('=').ok_or(format!("{word:?} has no ="))?;
        match name {
            "ready" => inherited.before = Some(Channel::from_fd(take(numbers)?)),
            name if number_of(name) == Some(inherited.admin.len()) => {
                let (socket, is, node, is_lent) = (take(numbers)?, None, None, false);
                inherited.admin.push(GivenAdmin { socket, is, node, is_lent });
            }
            "tickets" => inherited.kept.take_roots(take(numbers)?),
            address => {
                let address = read_endpoint(address).ok_or(format!("{address:?} is no address"))?;
                let sockets = numbers.split(',').map(take).collect::<Result<_, _>>()?;
                let (is_lent, node) = (false, None);
                inherited.listening.push(Given { asked: address, sockets, is_lent, node });
            }
        }
    }
    Ok(inherited)
}

/// The descriptor of this number, as it stands in the environment.
fn take(number: &str) -> Result<OwnedFd, String> {
    let number = number.parse().map_err(|_| format!("{number:?} is no descriptor"))?;
    inherit::take(number).map_err(|error| format!("descriptor {number}: {error}"))
}

/// The value of [`VARIABLE`] for these descriptors.
pub(crate) fn describe<'a>(
    ready: BorrowedFd<'_>,
    admin: impl Iterator<Item = &'a OwnedFd>,
    tickets: Option<&OwnedFd>,
    listening: impl Iterator<Item = (&'a Endpoint, Vec<&'a OwnedFd>)>,
) -> String {
    let mut told = format!("{VERSION} ready={}", ready.as_raw_fd());
    for (at, admin) in admin.enumerate() {
        told += &format!(" {}={}", word_of(at), admin.as_raw_fd());
    }
    if let Some(tickets) = tickets {
        told += &format!(" tickets={}", tickets.as_raw_fd());
    }
    for (address, sockets) in listening {
        let numbers: Vec<String> =
            sockets.iter().map(|socket| socket.as_raw_fd().to_string()).collect();
        told += &format!(" {}={}", write_endpoint(address), numbers.join(","));
    }
    told
}

/// The word for the admin socket of this number, from 0.
fn word_of(at: usize) -> String {
    match at {
        0 => ADMIN.to_owned(),
        at => format!("{ADMIN}.{}", at + 1),
    }
}

/// The number of the admin socket that this is the word for.
fn number_of(word: &str) -> Option<usize> {
    let rest = word.strip_prefix(ADMIN)?;
    let at = match rest.strip_prefix('.') {
        None => 0,
        Some(number) => number.parse::<usize>().ok()?.checked_sub(1)?,
    };
    (word == word_of(at)).then_some(at)
}

/// The value of [`ADMIN_IS`] for these admin sockets.
pub(crate) fn describe_admin(admin: impl Iterator<Item = AdminIs>) -> String {
    admin.map(|is| is.write()).collect::<Vec<_>>().join(",")
}

/// The value of [`LENT`] for these addresses, and for admin sockets which are that or not.
pub(crate) fn describe_lent<'a>(
    addresses: impl Iterator<Item = &'a Endpoint>,
    admin: impl Iterator<Item = bool>,
) -> String {
    let mut names: Vec<String> = addresses.map(write_endpoint).collect();
    let lent = admin.enumerate().filter(|(_, is_lent)| *is_lent);
    names.extend(lent.map(|(at, _)| word_of(at)));
    names.join(" ")
}

/// The value of [`NAMES`] for these addresses, and for admin sockets.
pub(crate) fn describe_names<'a>(
    listening: impl Iterator<Item = (&'a Endpoint, Node)>,
    admin: impl Iterator<Item = Option<Node>>,
) -> String {
    let word = |(name, node): (String, Node)| {
        let [device, inode] = node.into();
        format!("{name}={device}:{inode}")
    };
    let listening = listening.map(|(address, node)| (write_endpoint(address), node));
    let admin = admin.enumerate().filter_map(|(at, node)| Some((word_of(at), node?)));
    listening.chain(admin).map(word).collect::<Vec<_>>().join(" ")
}

/// The value of [`CERTIFICATES`] for this memory, in the process that is to take it: a version that
/// does not know the variable leaves it for a later one, to which it says nothing.
pub(crate) fn describe_certificates(memory: Option<&OwnedFd>) -> String {
    let told = |memory: &OwnedFd| format!("{}:{}", process::own_id(), memory.as_raw_fd());
    memory.map(told).unwrap_or_default()
}

fn take_certificates(told: &str) -> Option<OwnedFd> {
    let (owner, number) = told.split_once(':')?;
    if owner != process::own_id().to_string() {
        return None;
    }
    take(number).ok()
}

fn read_name(word: &str) -> Option<(&str, Node)> {
    let (name, node) = word.rsplit_once('=')?;
    let (device, inode) = node.split_once(':')?;
    Some((name, Node::from([device.parse().ok()?, inode.parse().ok()?])))
}

/// An address, or a path as a word without `=`: other bytes than those of plain names are written
/// as in a URL.
fn write_endpoint(endpoint: &Endpoint) -> String {
    let Some(path) = endpoint.unix() else { return endpoint.to_string() };
    let mut text = UNIX.to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => text.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(*byte)),
            byte => text += &format!("%{byte:02X}"),
        }
    }
    text
}

fn read_endpoint(text: &str) -> Option<Endpoint> {
    let Some(path) = text.strip_prefix(UNIX) else { return text.parse().ok().map(Endpoint::Tcp) };
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        // The library takes a sign for a digit.
        let digits = rest.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = &rest[2..];
    }
    (!bytes.is_empty()).then(|| Endpoint::Unix(OsString::from_vec(bytes).into()))
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, IntoRawFd};

    use flyball_arch::settings::AdminPlace;

    use super::*;

    fn socket() -> OwnedFd {
        net::bind("127.0.0.1:0".parse().unwrap(), false).unwrap()
    }

    #[test]
    fn what_is_handed_over_arrives() {
        let (ready, one, other, third) = (socket(), socket(), socket(), socket());
        // A descriptor's number is taken once in a process, so that none is opened again below.
        let (asked, memory) = ([socket(), socket()], socket());
        let address = Endpoint::Tcp("[::1]:80".parse().unwrap());
        let path = OsString::from_vec(b"/run/a b=%,\xff\n.sock".to_vec());
        let local = Endpoint::Unix(path.into());
        let listening = [(&address, vec![&one, &other]), (&local, vec![&third])];
        let told = describe(ready.as_fd(), asked.iter(), None, listening.into_iter());
        assert_eq!(told.split(' ').count(), 6, "{told}");
        // As after an exec, no value of this process owns them any more.
        let numbers = [ready, one, other, third].map(IntoRawFd::into_raw_fd);
        let of_admin = asked.map(IntoRawFd::into_raw_fd);
        let (node, own_node) = (Node::from([7, u64::MAX]), Node::from([0, 1]));
        let names =
            describe_names([(&local, node)].into_iter(), [None, Some(own_node)].into_iter());
        let lent = describe_lent([&local].into_iter(), [true, false].into_iter());
        let inherited = parse(&told).unwrap().lent(&lent);
        let inherited = inherited.named(&format!("{names} junk a=1 unix:/x=1:-2"));
        let settings = Settings::default();
        let is = [AdminIs::new(false, &address, &settings), AdminIs::new(true, &local, &settings)];
        let inherited = inherited.asked(&describe_admin(is.iter().cloned()));
        let taken = |at: usize| {
            let Given { asked, sockets, is_lent, node } = &inherited.listening[at];
            let sockets: Vec<RawFd> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
            (asked, sockets, *is_lent, *node)
        };
        assert_eq!(taken(0), (&address, numbers[1..3].to_vec(), false, None));
        assert_eq!(taken(1), (&local, numbers[3..].to_vec(), true, Some(node)));
        let [named, own] = inherited.admin.as_slice() else { panic!("two were handed over") };
        assert_eq!([named.is.as_ref(), own.is.as_ref()], is.each_ref().map(Some));
        assert_eq!([&named.socket, &own.socket].map(AsRawFd::as_raw_fd), of_admin);
        assert_eq!((named.node, named.is_lent), (None, true));
        assert_eq!((own.node, own.is_lent), (Some(own_node), false));
        assert_eq!(inherited.before.unwrap().as_fd().as_raw_fd(), numbers[0]);
        // Certificates are for one process.
        let told = describe_certificates(Some(&memory));
        let number = memory.into_raw_fd();
        for other in ["", "1:3", "7", &format!("1{told}"), &format!("{told}x")] {
            assert!(take_certificates(other).is_none(), "{other:?}");
        }
        assert_eq!(take_certificates(&told).unwrap().as_raw_fd(), number);
        assert!(take_certificates(&told).is_none() && describe_certificates(None).is_empty());
    }

    #[test]
    fn the_admin_socket_of_the_version_before_is_known() {
        let (socket, is, node, is_lent) = (socket(), None, None, false);
        let admin = vec![GivenAdmin { socket, is, node, is_lent }];
        let inherited = Inherited { admin, ..Inherited::default() };
        let inherited = inherited.lent("admin").named("admin=1:2");
        let inherited = inherited.asked("unix:/run/a.sock 0660 adm");
        let [given] = inherited.admin.as_slice() else { panic!("one was handed over") };
        assert!(given.is_lent && given.node == Some(Node::from([1, 2])));
        let mut settings = Settings::default();
        assert!(!differ(&inherited.admin, &settings), "what has no place yet is made");
        let at = |path: &str| AdminPlace::At(Endpoint::Unix(path.into()));
        settings.admin = vec![AdminPlace::Own(None), at("/run/a.sock")];
        assert!(differ(&inherited.admin, &settings), "its mode is another");
        settings.running.admin_mode = 0o660;
        settings.running.admin_group = Some("adm".into());
        assert!(!differ(&inherited.admin, &settings));
        settings.admin.push(at("/run/b.sock"));
        assert!(differ(&inherited.admin, &settings));
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for told in [
            "",
            "2 ready=5",
            "1 ready",
            "1 ready=x",
            "1 nowhere=5",
            "1 ready=1",
            "1 a=-4",
            "1 admin.2=5",
            "1 admin.1=5",
            "1 unix:=5",
            "1 unix:%=5",
            "1 unix:%4=5",
            "1 unix:%+4=5",
        ] {
            assert!(parse(told).is_err(), "{told:?}");
        }
    }
}
