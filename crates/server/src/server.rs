//! A server before it runs: its sites opened, its addresses bound, its warnings told.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use flyball_acme::Configuration as Acme;
use flyball_arch::Architecture;
use flyball_arch::descriptors::bound_files;
use flyball_arch::settings::{Listen, Settings};
use flyball_observe::log::{self, Appender};
use flyball_site::{Earlier, Sites};
use flyball_sys::channel::Channel;
use flyball_sys::net::Endpoint;
use flyball_sys::{error_log, process};

use crate::admin::{self, AdminSocket, AdminSockets};
use crate::configuration::Configuration;
use crate::handover::{self, Inherited};
use crate::host_watch::HostWatch;
use crate::issuers::spread_hosts;
use crate::listening::Listening;
use crate::sandbox::Confinement;
use crate::spawner::Spawner;
use crate::tls::{Kept, Tls, Told, write_nothing};
use crate::{acme, spool, surroundings, warnings};

/// Why an upgrade is refused: what listens is handed over as it is.
const ADMIN_STAYS: &str = "its address, mode and group cannot change along with an upgrade: \
                           reload before it";

/// A server that is bound and may be run.
#[derive(Debug)]
pub struct Server {
    /// Reads the settings again, if that can be done.
    pub(crate) configuration: Option<Box<dyn Configuration>>,
    /// What the workers that begin now run by.
    pub(crate) setup: Setup,
    pub(crate) listening: Listening,
    pub(crate) admin: AdminSockets,
    /// The master whose place this one takes, until it has.
    pub(crate) before: Option<Channel>,
}

/// What a check has found.
#[derive(Debug, Default)]
pub struct Checked {
    /// What is not as it was asked for.
    pub warnings: Vec<String>,
    /// The certificates that a server would begin with.
    pub certificates: Vec<Told>,
}

/// What a generation of workers runs by.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) architecture: &'static dyn Architecture,
    pub(crate) settings: Arc<Settings>,
    pub(crate) sites: Arc<Sites>,
    /// What starts their programs, in a process of its own, if there are any.
    pub(crate) spawner: Option<Arc<Spawner>>,
    /// The hosts that are directories, as they were when the sites were opened.
    pub(crate) hosts: HostWatch,
    /// What takes the lines of the logs.
    pub(crate) appender: Option<Arc<Appender>>,
    /// What children of the master give up.
    pub(crate) confinement: Confinement,
    /// What is spoken by where an address speaks TLS, if any does.
    pub(crate) tls: Option<Tls>,
    /// What the agent that gets certificates is to do, if one is needed.
    pub(crate) acme: Option<Arc<Acme>>,
}

impl Setup {
    /// Opens the sites and the log. Blocks on the disk.
    ///
    /// # Errors
    /// With a message for the operator: a missing root, a missing right.
    pub(crate) fn open(
        architecture: &'static dyn Architecture,
        mut settings: Settings,
        earlier: Earlier<'_>,
        kept: &Kept,
    ) -> Result<Setup, String> {
        let hosts = HostWatch::of(&settings.sites);
        settings.running.unserved = spread_hosts(&mut settings)?;
        derive(&mut settings);
        // How many workers there are, and what each may use, is decided here for good.
        settings.cpus.get_or_insert_with(process::cpu_allowance);
        architecture.probe().map_err(|why| {
            settings.blame("arch", format!("{} cannot run here: {why}", architecture.name()))
        })?;
        if let Some(lack) = surroundings::lacks(&settings).first() {
            return Err(lack.told(&settings));
        }
        let confinement = Confinement::new(architecture, &settings)?;
        confinement.check()?;
        let acme = acme::configuration(&settings, &confinement)?.map(Arc::new);
        confinement.hide_keys()?;
        let tls = Tls::open(&settings, kept)?;
        let mut sites = open_sites(earlier, &settings, &confinement)?;
        spool::open(&settings, &confinement, &mut sites);
        tls.iter().for_each(|tls| tls.tell(&settings, &mut sites));
        let appender = log::open(&settings.access_logs(), &settings.log)
            .map_err(|(key, why)| settings.blame(key, why))?;
        if let Some(experiment) = &mut settings.experiment {
            experiment.make_lock()?;
        }
        Ok(Setup {
            architecture,
            settings: Arc::new(settings),
            spawner: sites.programs().map(|programs| Arc::new(Spawner::new(programs))),
            sites: Arc::new(sites),
            hosts,
            appender: appender.map(Arc::new),
            confinement,
            tls,
            acme,
        })
    }

    /// The same with the roots of its sites opened again. What cannot be opened now stays what it
    /// was, so that no user keeps the roots of others from being replaced. Blocks on the disk.
    ///
    /// # Errors
    /// When the rights of the workers' user cannot be taken, or descriptors are out.
    pub(crate) fn with_roots_of_now(&self) -> Result<Setup, String> {
        let earlier = Earlier::Same(&self.sites);
        let mut sites = open_sites(earlier, &self.settings, &self.confinement)?;
        self.tls.iter().for_each(|tls| tls.tell(&self.settings, &mut sites));
        Ok(Setup { sites: Arc::new(sites), ..self.clone() })
    }

    /// The same after a change of the settings, where `before` has a log process already that
    /// writes what these settings want written: only how a line looks may differ.
    pub(crate) fn keep_log_of(&mut self, before: &Setup) {
        let (now, then) = (&self.settings, &before.settings);
        let same = now.access_logs().is_as(&then.access_logs())
            && now.log.slow == then.log.slow
            && now.log.bytes_max == then.log.bytes_max
            && now.log.ms_max == then.log.ms_max
            && now.log.keep == then.log.keep;
        if same {
            self.appender.clone_from(&before.appender);
        }
    }
}

impl Server {
    /// Opens the sites and the logs, and binds every address; nothing is served yet.
    ///
    /// # Errors
    /// With a message for the operator: a taken port, a missing root, a missing right.
    pub fn bind(
        architecture: &'static dyn Architecture,
        settings: Settings,
    ) -> Result<Server, String> {
        // First, while the numbers of descriptors mean what the parent process says.
        let mut inherited = Inherited::of_process()?;
        // Who lends Unix-domain sockets says nothing of which is for what but their names. Commands
        // are accepted over those of `admin` alone: another may be one that all may connect to.
        if handover::differ(&inherited.admin, &settings) {
            return Err(settings.blame("admin", ADMIN_STAYS));
        }
        for path in settings.admin_endpoints().filter_map(Endpoint::unix) {
            inherited.lend_admin(path);
        }
        let Inherited { before, admin, listening, kept } = inherited;
        let setup = Setup::open(architecture, settings, Earlier::Nothing, &kept)?;
        let mut listening = Listening::bind(&setup.settings, listening)?;
        let prepared = match before {
            None => listening.prepare(architecture, &setup.settings).map(drop),
            Some(_) => listening.guard(&setup.settings),
        };
        let admin = prepared.and_then(|()| AdminSockets::bind(&setup.settings, admin));
        // Those that were made here lead nowhere now.
        let admin = admin.inspect_err(|_| listening.remove_made())?;
        Ok(Server { configuration: None, setup, listening, admin, before })
    }

    /// The same, and its settings can be read again while it runs.
    pub fn configured_by(self, configuration: Box<dyn Configuration>) -> Server {
        Server { configuration: Some(configuration), ..self }
    }

    /// Later generations run by this.
    pub(crate) fn use_setup(&mut self, setup: Setup) {
        self.setup = setup;
        error_log::set_level(self.setup.settings.log.level);
    }

    /// Whether a server with these settings could open its sites, and its workers enter them; the
    /// warnings that it would give, but for those of the sockets that it is handed, and its
    /// certificates. Binds and writes nothing. To be called by a process of one thread.
    ///
    /// # Errors
    /// Why not.
    pub fn check(
        architecture: &'static dyn Architecture,
        settings: &Settings,
    ) -> Result<Checked, String> {
        let mut settings = settings.clone();
        settings.running.unserved = spread_hosts(&mut settings)?;
        derive(&mut settings);
        let confinement = Confinement::new(architecture, &settings)?;
        confinement.check()?;
        let mut sites = open_sites(Earlier::Nothing, &settings, &confinement)?;
        spool::open(&settings, &confinement, &mut sites);
        acme::configuration(&settings, &confinement)?;
        write_nothing(&mut settings);
        let tls = Tls::open(&settings, &Kept::default())?;
        let lacks = surroundings::lacks(&settings);
        let mut warnings: Vec<String> = lacks.iter().map(|lack| lack.told(&settings)).collect();
        if let Err(why) = architecture.probe() {
            let why = format!("{} cannot run here: {why}", architecture.name());
            warnings.push(settings.blame("arch", why));
        }
        warnings.extend(warnings::all(architecture, &settings, &sites, &confinement));
        warnings.extend(admin::lack(&settings).map(|why| admin::lacking(&settings, &why)));
        warnings.extend(tls.iter().flat_map(Tls::warnings).cloned());
        let certificates = tls.map(|tls| tls.told(&[])).unwrap_or_default();
        Ok(Checked { warnings, certificates })
    }

    /// The certificates that a server with these settings would begin with. Binds and writes
    /// nothing, and blocks on the disk.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn certificates(settings: &Settings) -> Result<Vec<Told>, String> {
        let mut settings = settings.clone();
        write_nothing(&mut settings);
        let tls = Tls::open(&settings, &Kept::default())?;
        Ok(tls.map(|tls| tls.told(&[])).unwrap_or_default())
    }

    /// The addresses that are listened on, with the ports that were found, and what is spoken
    /// there.
    pub fn listens(&self) -> Vec<Listen> {
        self.listening.listens()
    }

    /// The user that workers become, when it is another than that of the master.
    pub fn user(&self) -> Option<&str> {
        self.setup.confinement.user()
    }

    /// The file of its configuration, if it has one.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.configuration.as_ref()?.file()
    }

    /// How many workers there will be.
    pub fn workers(&self) -> usize {
        self.setup.architecture.workers(&self.setup.settings)
    }

    /// Where `/status` and `/metrics` are.
    pub fn admin_endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.admin.iter().map(AdminSocket::endpoint)
    }

    /// What is not as asked for, for the operator.
    pub fn warnings(&self) -> Vec<String> {
        let Setup { architecture, settings, sites, confinement, tls, .. } = &self.setup;
        let mut warnings = warnings::all(*architecture, settings, sites, confinement);
        warnings.extend(tls.iter().flat_map(Tls::warnings).cloned());
        warnings.extend(self.listening.unlisted().map(|address| {
            format!("a socket for {address} was handed over, which `listen` does not list")
        }));
        warnings.extend(self.admin.lack().map(str::to_owned));
        warnings
    }

    /// In a process that serves no site: closes its roots and the ways to its logs.
    ///
    /// # Errors
    /// Never, in practice.
    pub(crate) fn let_files_go(&mut self) -> io::Result<()> {
        self.setup.sites = Arc::new(Sites::open(&[], &flyball_sys::sandbox::Rights::OWN)?);
        (self.setup.appender, self.setup.spawner) = (None, None);
        Ok(())
    }
}

/// Opens the sites, of which none sends what the server reads. Blocks on the disk.
fn open_sites(
    earlier: Earlier<'_>,
    settings: &Settings,
    confinement: &Confinement,
) -> Result<Sites, String> {
    let secrets = settings.tls.secrets();
    let sites = Sites::open_after(earlier, &settings.sites, &secrets, &confinement.rights());
    let mut sites = sites.map_err(|error| error.to_string())?;
    sites.serve_at(&settings.lists_of_hosts());
    Ok(sites)
}

/// Sets whatever follows from other settings and from this machine.
fn derive(settings: &mut Settings) {
    settings.begin_experiment();
    bound_files(settings);
    settings.caches.promise = settings.send.promise();
    // A call that blocks makes others wait for a slow client.
    settings.limits.keeps_slow = settings.close_idle_when_full && !settings.send_blocking;
}
