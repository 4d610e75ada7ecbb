//! One setting changed while the server runs: in place where workers look for it, by a new
//! generation of workers where they do not.

use std::sync::Arc;

use flyball_sys::error_log;

use super::Master;
use super::generations::GENERATIONS_MAX;
use crate::control::{CHANGEABLE, Reply, changeable};
use crate::server::{Setup, bound_files};
use crate::settings::AcceptLimit;
use crate::{explain, live, registry};

/// The one that all processes look at where they say something.
const LOG_LEVEL: &str = "log.level";

impl Master {
    /// Gives a setting another value, as somebody asks for it.
    ///
    /// # Errors
    /// Why it stays as it is.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<Reply, String> {
        self.is_free_to_change()?;
        match key {
            "architecture" | "arch" => {
                let found = registry::find(value);
                self.switch(found.ok_or_else(|| format!("there is no architecture {value:?}"))?)
            }
            "accept.limit" => {
                let limit = AcceptLimit::parse(value)
                    .ok_or_else(|| format!("expected {}, found {value:?}", AcceptLimit::FORM))?;
                Ok(Reply::Done(self.set_accept_limit(limit)))
            }
            _ => self.set_other(key, value).map(Reply::Done),
        }
    }

    fn set_other(&mut self, key: &str, value: &str) -> Result<String, String> {
        let before = self.value_of(key)?;
        if !CHANGEABLE.contains(&key) && !live::is_live(key) {
            return Err(format!(
                "{key:?} cannot be changed while the server runs, but by a reload; {} can",
                changeable()
            ));
        }
        let Some(configuration) = &self.server.configuration else {
            return Err("this server has no configuration to change".into());
        };
        let mut settings = configuration.changed(&self.server.settings, key, value)?;
        bound_files(&mut settings);
        let mut how = String::new();
        if live::is_live(key) || key == LOG_LEVEL {
            self.blocks.live().set(&settings.limits);
            error_log::set_level(settings.log.level);
            self.server.settings = Arc::new(settings);
        } else {
            let next = Setup { settings: Arc::new(settings), ..self.server.setup() };
            let listening = self.server.listening.clone();
            self.renew(next, listening, GENERATIONS_MAX)
                .map_err(|why| format!("{key} stays {before}: {why}"))?;
            how = format!("; generation {} goes by it", self.generation.number);
        }
        self.changed.insert(key.to_owned(), value.to_owned());
        Ok(format!("{key} is {}; it was {before}{how}", self.value_of(key)?))
    }

    fn set_accept_limit(&mut self, limit: AcceptLimit) -> String {
        let before = self.blocks.accept_limit();
        self.blocks.set_accept_limit(limit);
        let architecture = self.generation.architecture;
        let unused = match architecture.settings().contains(&"accept.limit") {
            true => String::new(),
            false => format!("; {} does not use it", architecture.name()),
        };
        format!("accept.limit is {limit}; it was {before}{unused}")
    }

    /// The value of a setting that holds now.
    ///
    /// # Errors
    /// When there is no such setting.
    pub(super) fn value_of(&self, key: &str) -> Result<String, String> {
        let (architecture, settings) = (self.generation.architecture, &self.server.settings);
        match key {
            "architecture" | "arch" => return Ok(architecture.name().into()),
            "accept.limit" => return Ok(self.blocks.accept_limit().to_string()),
            "workers" => return Ok(self.generation.workers.to_string()),
            "listen" => {
                let addresses: Vec<_> =
                    self.server.addresses().iter().map(ToString::to_string).collect();
                return Ok(addresses.join(","));
            }
            _ => {}
        }
        let effects = explain::effects(architecture, settings);
        let effect = effects.into_iter().filter(|effect| effect.key == key).find_map(|e| e.value);
        let written = || self.server.configuration.as_ref()?.written(key);
        let value = effect.or_else(|| self.changed.get(key).cloned()).or_else(written);
        value.ok_or_else(|| format!("there is no setting {key:?}"))
    }
}
