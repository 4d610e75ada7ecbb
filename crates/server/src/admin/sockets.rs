//! The sockets of `admin`: the master makes them, keeps them while admin processes come and go, and
//! hands them over to the master that takes its place.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flyball_arch::settings::{AdminPlace, Settings};
use flyball_sys::net::{self, Endpoint, ListenOptions};
use flyball_sys::node::Node;

use super::own;
use crate::handover::{AdminIs, GivenAdmin};
use crate::listening::{explain, explain_guard, explain_unix, group_or_own, remove_names};

/// Clients that wait to be accepted.
const BACKLOG: u32 = 16;

/// Why there is no socket of the server's own.
const NO_DIRECTORY: &str = "there is no runtime directory: neither RUNTIME_DIRECTORY nor \
                            XDG_RUNTIME_DIR is set";

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct AdminSocket {
    /// Whether its place follows from the machine.
    is_own: bool,
    /// Where it is; the port may be one that the kernel has chosen.
    endpoint: Endpoint,
    /// The same as it was asked for.
    asked: Endpoint,
    pub(crate) socket: Arc<OwnedFd>,
    /// Whether it is lent: its name is its owner's.
    is_lent: bool,
    /// Which file its name led to when it began to be used.
    node: Option<Node>,
}

/// All of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdminSockets {
    all: Vec<AdminSocket>,
    /// Why the server's own could not be made.
    lack: Option<String>,
    /// Names of those before that are not among these.
    left: Vec<(PathBuf, Node)>,
}

impl AdminSockets {
    /// Those of these settings: what was handed over is taken as it is, and others are made.
    ///
    /// # Errors
    /// With a message for the operator: a taken port, a missing right.
    pub(crate) fn bind(
        settings: &Settings,
        given: Vec<GivenAdmin>,
    ) -> Result<AdminSockets, String> {
        let given = given.into_iter().filter_map(|given| AdminSocket::given(given, settings));
        AdminSockets { all: given.collect(), ..AdminSockets::default() }.rebound(settings)
    }

    /// Those of other settings: the sockets of places that stay are the same, and new ones are
    /// made. Nothing else is changed.
    ///
    /// # Errors
    /// As [`AdminSockets::bind`]; none is made then.
    pub(crate) fn rebound(&self, settings: &Settings) -> Result<AdminSockets, String> {
        let (next, lacks) = self.restored(settings);
        match lacks.into_iter().next() {
            None => Ok(next),
            Some(why) => {
                next.remove_made_beside(self);
                Err(why)
            }
        }
    }

    /// The same as far as it can be done, and why the others of a named place cannot be made.
    pub(crate) fn restored(&self, settings: &Settings) -> (AdminSockets, Vec<String>) {
        let (mut next, mut lacks) = (AdminSockets::default(), Vec::new());
        let mut known: Vec<&AdminSocket> = self.all.iter().collect();
        for place in &settings.admin {
            if let Some(at) = known.iter().position(|it| it.is_for(place) && it.is_there()) {
                next.all.push(known.remove(at).clone());
                continue;
            }
            match (place, AdminSocket::make(place, settings)) {
                (_, Ok(made)) => next.all.push(made),
                (AdminPlace::Own(_), Err(why)) => next.lack = Some(why),
                (AdminPlace::At(_), Err(why)) => lacks.push(why),
            }
        }
        next.left = names_beside(self, &next);
        (next, lacks)
    }

    /// Gives their names the mode and the group of these settings; all that it can.
    ///
    /// # Errors
    /// With the first message: there is no such group, or another socket has a name.
    pub(crate) fn guard(&self, settings: &Settings) -> Result<(), String> {
        let (mode, group) = guard_of(settings)?;
        let mut guarded = Ok(());
        for it in self.all.iter().filter(|it| !it.is_lent) {
            let Some(path) = it.endpoint.unix() else { continue };
            let done = net::guard_unix(path, mode, group, it.node).map(drop).map_err(|error| {
                settings.blame("admin", format!("{}: {}", it.endpoint, explain_guard(&error)))
            });
            guarded = guarded.and(done);
        }
        guarded
    }

    /// The sockets, in the order of the settings.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &AdminSocket> {
        self.all.iter()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What is not as asked for.
    pub(crate) fn lack(&self) -> Option<&str> {
        self.lack.as_deref()
    }

    /// In a process that answers at none of them: closes them here.
    pub(crate) fn forget(&mut self) {
        self.all.clear();
    }

    /// Removes the names of those that are asked no more: they lead nowhere now.
    pub(crate) fn remove_left(&mut self) {
        remove_names(&std::mem::take(&mut self.left));
    }

    /// Removes the names that were made beside those of `before`, which go on.
    pub(crate) fn remove_made_beside(&self, before: &AdminSockets) {
        remove_names(&names_beside(self, before));
    }

    /// Removes all names, unless another socket has one by now.
    pub(crate) fn remove_names(&self) {
        remove_names(&names_beside(self, &AdminSockets::default()));
    }
}

/// The names that `other` has not, and which files they are.
fn names_beside(these: &AdminSockets, other: &AdminSockets) -> Vec<(PathBuf, Node)> {
    let known: Vec<_> = other.all.iter().filter_map(AdminSocket::name).collect();
    let names = these.all.iter().filter_map(AdminSocket::name);
    let names = names.filter(|name| !known.contains(name));
    names.map(|(path, node)| (path.to_owned(), node)).collect()
}

impl AdminSocket {
    /// Where it is.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// What it is by the settings that hold now.
    pub(crate) fn is_now(&self, settings: &Settings) -> AdminIs {
        AdminIs::new(self.is_own, &self.asked, settings)
    }

    /// Whether it is lent.
    pub(crate) fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Its name in the file system and which file that is, if it is this server's to remove.
    pub(crate) fn name(&self) -> Option<(&Path, Node)> {
        Some((self.endpoint.unix()?, self.node.filter(|_| !self.is_lent)?))
    }

    /// Whether it is that of a place.
    fn is_for(&self, place: &AdminPlace) -> bool {
        match place {
            AdminPlace::Own(_) => self.is_own,
            AdminPlace::At(endpoint) => !self.is_own && self.asked == *endpoint,
        }
    }

    /// Whether clients still find it: a name can be removed, or be given to another.
    fn is_there(&self) -> bool {
        let Some(path) = self.endpoint.unix() else { return true };
        let leads_to = |known| net::unix_node(path).is_ok_and(|node| node == known);
        self.is_lent || self.node.is_none_or(leads_to)
    }

    /// One that was handed over; `None` if these settings do not want it. A version before did not
    /// say where it is: it knew of one alone.
    fn given(given: GivenAdmin, settings: &Settings) -> Option<AdminSocket> {
        let GivenAdmin { socket, is, node, is_lent } = given;
        let (is_own, asked) = match is {
            Some(AdminIs { is_own, endpoint, .. }) => (is_own, endpoint),
            None => (false, settings.admin_endpoints().next()?.clone()),
        };
        let endpoint = net::local_address(&socket).map_or_else(|_| asked.clone(), Endpoint::Tcp);
        let node = node.or_else(|| net::unix_node(endpoint.unix()?).ok());
        never_blocks(&socket);
        Some(AdminSocket { is_own, endpoint, asked, socket: Arc::new(socket), is_lent, node })
    }

    fn make(place: &AdminPlace, settings: &Settings) -> Result<AdminSocket, String> {
        let fail = |why: String| match place {
            AdminPlace::Own(_) => lacking(settings, &why),
            AdminPlace::At(_) => settings.blame("admin", why),
        };
        let (is_own, asked) = match place {
            AdminPlace::At(endpoint) => (false, endpoint.clone()),
            AdminPlace::Own(directory) => {
                let directory = directory.as_deref().ok_or_else(|| fail(NO_DIRECTORY.into()))?;
                (true, Endpoint::Unix(own::prepare(directory).map_err(fail)?))
            }
        };
        let (socket, endpoint, node) = match &asked {
            Endpoint::Tcp(address) => {
                let fail = |error| fail(format!("{address}: {}", explain(&error)));
                let socket = net::bind(*address, false).map_err(fail)?;
                net::listen(&socket, BACKLOG, &ListenOptions::default()).map_err(fail)?;
                let found = net::local_address(&socket).map_err(fail)?;
                (socket, Endpoint::Tcp(found), None)
            }
            Endpoint::Unix(path) => {
                let (mode, group) = guard_of(settings)?;
                let socket = net::listen_unix(path, mode, group);
                let socket = socket.map_err(|error| {
                    fail(format!("unix:{}: {}", path.display(), explain_unix(&error)))
                })?;
                (socket, asked.clone(), net::unix_node(path).ok())
            }
        };
        never_blocks(&socket);
        let (socket, is_lent) = (Arc::new(socket), false);
        Ok(AdminSocket { is_own, endpoint, asked, socket, is_lent, node })
    }
}

/// Sees to it that accepting from it never waits: the process that serves several may find that
/// another has taken a client, after a handover.
fn never_blocks(socket: &OwnedFd) {
    // It fails of no descriptor that is open.
    let _ = net::set_nonblocking(socket, true);
}

/// Why a server with these settings would have no socket of its own, as far as that can be told
/// before. Writes nothing, and blocks on the disk.
pub(crate) fn lack(settings: &Settings) -> Option<String> {
    match settings.admin_directory()? {
        Some(directory) => own::examine(directory).err(),
        None => Some(NO_DIRECTORY.to_owned()),
    }
}

/// What is said of a server without a socket of its own.
pub(crate) fn lacking(settings: &Settings, why: &str) -> String {
    settings.blame("admin", format!("{why}; `flyball ctl` finds no socket of this server"))
}

/// The mode of those in the file system, and their group.
fn guard_of(settings: &Settings) -> Result<(u32, u32), String> {
    let group = group_or_own(settings.running.admin_group.as_deref());
    let group = group.map_err(|why| settings.blame("admin-group", why))?;
    Ok((settings.running.admin_mode, group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_put_back_is_where_another_place_has_gone() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let place = |name: &str| AdminPlace::At(Endpoint::Unix(at(name)));
        let mut settings = Settings { admin: vec![place("failed")], ..Settings::default() };
        let failed = AdminSockets::bind(&settings, Vec::new()).unwrap();
        settings.admin = vec![place("gone/a"), place("b")];
        assert!(failed.rebound(&settings).unwrap_err().contains("gone/a"));
        assert!(!at("b").exists(), "all or none");
        let (mut restored, lacks) = failed.restored(&settings);
        assert!(lacks.len() == 1 && lacks[0].contains("gone/a"), "{lacks:?}");
        restored.remove_left();
        assert_eq!(restored.iter().len(), 1);
        assert!(at("b").exists() && !at("failed").exists());
    }
}
