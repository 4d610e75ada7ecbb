//! The listening sockets: the master makes every one of them and keeps it across generations of
//! workers, so that no connection is lost in an accept queue while workers come and go.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use flyball_sys::net::{self, Address, ListenOptions};
use flyball_sys::process;

use crate::registry::Architecture;
use crate::settings::Settings;
use crate::worker::BLOCKING_TICK_MS;

/// Seconds for which the kernel holds back a connection that sends nothing.
const DEFER_ACCEPT_S: u32 = 5;

/// One address and the sockets that are bound to it: as many as any generation wanted, since one
/// that is closed would take its accept queue with it.
#[derive(Debug)]
struct Bound {
    address: Address,
    sockets: Vec<Arc<OwnedFd>>,
}

/// The listening sockets of a server.
#[derive(Debug)]
pub(crate) struct Listening {
    bound: Vec<Bound>,
}

impl Listening {
    /// Binds one socket to every address; nothing listens yet. The first socket of an address is
    /// bound without SO_REUSEPORT, so that a port which somebody else holds is seen.
    ///
    /// # Errors
    /// With a message for whoever started the server: a taken port, a missing right.
    pub(crate) fn bind(settings: &Settings) -> Result<Listening, String> {
        let bind = |address: &Address| {
            let fail =
                |error: &io::Error| format!("cannot listen on {address}: {}", explain(error));
            let first =
                bind_first_free(*address, settings.port_tries).map_err(|error| fail(&error))?;
            let address = net::local_address(&first).map_err(|error| fail(&error))?;
            Ok(Bound { address, sockets: vec![Arc::new(first)] })
        };
        let bound = settings.listen.iter().map(bind).collect::<Result<_, String>>()?;
        Ok(Listening { bound })
    }

    /// The addresses, with the ports that were found.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.bound.iter().map(|bound| bound.address).collect()
    }

    /// Every socket there is.
    pub(crate) fn all(&self) -> Vec<Arc<OwnedFd>> {
        self.bound.iter().flat_map(|bound| &bound.sockets).cloned().collect()
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
        let mut grew = false;
        for bound in &mut self.bound {
            let address = bound.address;
            let fail = |error: io::Error| format!("cannot listen on {address}: {error}");
            if wanted > bound.sockets.len() {
                net::share_port(&*bound.sockets[0]).map_err(fail)?;
            }
            while bound.sockets.len() < wanted {
                let another = net::bind(address, true).map_err(fail)?;
                bound.sockets.push(Arc::new(another));
                grew = true;
            }
            for (at, socket) in bound.sockets.iter().enumerate() {
                let reader = at % wanted;
                let cpu = cpu_of_worker(settings, reader).filter(|_| settings.incoming_cpu);
                if let Some(cpu) = cpu.filter(|_| !architecture.sockets_are_shared()) {
                    net::prefer_cpu(&**socket, cpu as u32).map_err(fail)?;
                }
                net::set_blocking(&**socket, architecture.listener_blocks()).map_err(fail)?;
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
        index: usize,
        workers: usize,
    ) -> Vec<Arc<OwnedFd>> {
        let own = |at: usize| architecture.sockets_are_shared() || at % workers == index;
        let sockets = self.bound.iter().flat_map(|bound| bound.sockets.iter().enumerate());
        sockets.filter(|(at, _)| own(*at)).map(|(_, socket)| Arc::clone(socket)).collect()
    }
}

/// The CPU that a worker is bound to, if it is: the next of those that are named or allowed.
pub(crate) fn cpu_of_worker(settings: &Settings, index: usize) -> Option<usize> {
    if !settings.pin {
        return None;
    }
    let allowed = process::allowed_cpus();
    let cpus = if settings.pin_cpus.is_empty() { &allowed } else { &settings.pin_cpus };
    Some(cpus[index % cpus.len()])
}

/// Listens, or listens again after a worker stopped it.
///
/// # Errors
/// When the kernel refuses an option, such as a congestion control that it does not have.
pub(crate) fn listen(socket: &OwnedFd, settings: &Settings) -> io::Result<()> {
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

/// A failed bind in the words of whoever chose the address.
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
