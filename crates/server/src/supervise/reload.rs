//! Reload: the configuration is read again, and a new generation of workers runs by it. One that
//! cannot be used changes nothing.

use std::sync::Arc;

use flyball_arch::registry;
use flyball_arch::settings::Settings;
use flyball_site::Earlier;
use flyball_sys::error_log::Level;
use flyball_sys::{clock, say};

use super::Master;
use super::generations::GENERATIONS_MAX;
use crate::listening::remove_names;
use crate::server::Setup;
use crate::tls::Tls;

impl Master {
    /// Whether there is a file that the configuration was read from.
    pub(super) fn has_file(&self) -> bool {
        self.server.file().is_some()
    }

    /// [`Master::reload`], for readers of standard error.
    pub(super) fn reload_and_say(&mut self) {
        let done = self.reload();
        match done {
            Ok(said) => say!(Level::Info, "{said}"),
            Err(why) => say!(Level::Error, "{why}"),
        }
        self.refresh_admin();
    }

    /// Reads the configuration again and begins a new generation by it. Blocks on the disk, and
    /// until the generation before has left the listening sockets.
    ///
    /// # Errors
    /// Why all stays as it is.
    pub(super) fn reload(&mut self) -> Result<String, String> {
        self.notifier.reloading();
        let pid_file = self.server.setup.settings.running.pid_file.clone();
        let done = self.load_and_renew();
        self.move_pid_file(pid_file);
        self.notifier.ready(&self.status_line());
        done
    }

    fn load_and_renew(&mut self) -> Result<String, String> {
        self.is_free_to_change()?;
        let values = self.values();
        let Some(configuration) = &mut self.server.configuration else {
            return Err("this server has no configuration to load again".into());
        };
        let settings = configuration.load().map_err(|why| {
            let why = why.trim_end().replace('\n', "; ");
            format!("the configuration is not loaded and nothing changes: {why}")
        })?;
        let begun_ms = clock::monotonic_ms();
        self.renew_by(settings)
            .map_err(|why| format!("the configuration is not used and nothing changes: {why}"))?;
        for warning in self.server.warnings() {
            say!(Level::Warn, "warning: {warning}");
        }
        self.say_what_changed(&values);
        let listens: Vec<String> = self.server.listens().iter().map(ToString::to_string).collect();
        Ok(format!(
            "the configuration is loaded: generation {}, {} at {} ({} ms)",
            self.generation.number,
            self.what_runs(),
            listens.join(", "),
            clock::monotonic_ms() - begun_ms
        ))
    }

    /// Begins a new generation by these settings.
    ///
    /// # Errors
    /// Why all stays as it is.
    pub(super) fn renew_by(&mut self, settings: Settings) -> Result<(), String> {
        let architecture = registry::find(&settings.arch)
            .ok_or_else(|| format!("there is no architecture {}", settings.arch))?;
        // Nothing else of what there was may be held by this function: children that are forked
        // meanwhile would hold it for all their lives.
        let before = Arc::clone(&self.server.setup.settings);
        let earlier = Earlier::Other(&self.server.setup.sites);
        let kept = self.server.setup.tls.as_ref().map(Tls::kept).unwrap_or_default();
        let mut next = Setup::open(architecture, settings, earlier, &kept)?;
        drop(kept);
        next.keep_log_of(&self.server.setup);
        let listening = self.server.listening.rebound(&next.settings)?;
        let names = listening.names_beside(&self.server.listening);
        let admin = self.server.admin.rebound(&next.settings);
        let mut admin = admin.inspect_err(|_| remove_names(&names))?;
        let guarded = admin.guard(&next.settings);
        if let Err(why) = guarded.and_then(|()| self.renew(next, listening, GENERATIONS_MAX)) {
            remove_names(&names);
            admin.remove_made_beside(&self.server.admin);
            // What could be changed is changed back.
            let _ = self.server.admin.guard(&before);
            return Err(why);
        }
        admin.remove_left();
        self.server.admin = admin;
        self.changed.clear();
        self.root_watch.was_renewed();
        self.due.admin_is_stale = true;
        Ok(())
    }

    /// The sockets of `admin` become those of the settings that hold by now, as far as they can:
    /// why the others cannot. A server without any could not be told anything.
    pub(super) fn put_admin_sockets_back(&mut self) -> Vec<String> {
        let settings = &self.server.setup.settings;
        let (mut admin, mut lacks) = self.server.admin.restored(settings);
        if admin.is_empty() && !settings.admin.is_empty() {
            return lacks;
        }
        lacks.extend(admin.guard(settings).err());
        admin.remove_left();
        self.server.admin = admin;
        lacks
    }
}
