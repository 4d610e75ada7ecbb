//! One setting changed while the server runs: in place where workers look for it, by a new
//! generation of workers where they do not.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_arch::descriptors::bound_files;
use flyball_arch::registry;
use flyball_arch::settings::Settings;
use flyball_sys::error_log::{self, Level};
use flyball_sys::say;

use super::Master;
use super::generations::GENERATIONS_MAX;
use crate::configuration::{Changeable, Changes};
use crate::control::Reply;
use crate::explain::{self, Effect};
use crate::server::Setup;

/// The key of the architecture, and what commands called it before: understood for one version.
const ARCH: &str = "arch";
const ARCH_BEFORE: &str = "architecture";

/// Settings and their values.
pub(super) type Values = BTreeMap<&'static str, String>;

impl Master {
    /// Gives a setting another value, as a command asks for it.
    ///
    /// # Errors
    /// Why it stays as it is.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<Reply, String> {
        self.is_free_to_change()?;
        let said = match key {
            ARCH | ARCH_BEFORE => {
                let found = registry::find(value);
                self.switch(found.ok_or_else(|| format!("there is no architecture {value:?}"))?)?
            }
            _ => self.set_other(key, value)?,
        };
        let renamed = match key {
            ARCH_BEFORE => format!("; warning: {ARCH_BEFORE} is {ARCH} now"),
            _ => String::new(),
        };
        Ok(Reply::Done(said + &renamed))
    }

    fn set_other(&mut self, key: &str, value: &str) -> Result<String, String> {
        let before = self.value_of(key)?;
        let Some(configuration) = &self.server.configuration else {
            return Err("this server has no configuration to change".into());
        };
        let changes = configuration.changes(key);
        if changes == Changes::Reload {
            let others = configuration.changeable();
            let others: Vec<&str> = others.iter().map(|setting| setting.key).collect();
            return Err(format!(
                "{key:?} cannot be changed while the server runs, but by a reload; {} can",
                others.join(", ")
            ));
        }
        let change = |settings: &Settings| {
            let mut settings = configuration.changed(settings, key, value)?;
            bound_files(&mut settings);
            Ok::<_, String>(Arc::new(settings))
        };
        let settings = change(&self.server.setup.settings)?;
        let mut more = String::new();
        let architecture = self.generation.architecture;
        let is_unused = registry::unused_keys(architecture, &settings).contains(&key);
        // What this architecture ignores waits for another one.
        if changes == Changes::InPlace || is_unused {
            // What runs again when this generation fails goes by it too.
            if let Some(previous) = &mut self.generation.previous
                && let Ok(settings) = change(&previous.setup.settings)
            {
                previous.setup.settings = settings;
                previous.changed.insert(key.to_owned(), value.to_owned());
            }
            self.server.setup.settings = settings;
            self.use_in_place();
        } else {
            let next = Setup { settings, ..self.server.setup.clone() };
            let listening = self.server.listening.clone();
            self.renew(next, listening, GENERATIONS_MAX)
                .map_err(|why| format!("{key} stays {before}: {why}"))?;
            more = format!("; generation {} goes by it", self.generation.number);
        }
        self.changed.insert(key.to_owned(), value.to_owned());
        if is_unused {
            more += &format!("; {} does not use it", architecture.name());
        }
        Ok(format!("{key} is {}; it was {before}{more}", self.value_of(key)?))
    }

    /// Has all processes look at the settings that they take over as they are.
    pub(super) fn use_in_place(&self) {
        let settings = &self.server.setup.settings;
        self.shared.live().set(&settings.limits);
        let limit = self.server.setup.architecture.accept_limit(settings);
        self.shared.live().set_accept_limit(limit);
        error_log::set_level(settings.log.level);
    }

    /// The value of a setting that holds now.
    ///
    /// # Errors
    /// When there is no such setting.
    pub(super) fn value_of(&self, key: &str) -> Result<String, String> {
        let value = self.value_among(key, &self.effects());
        value.ok_or_else(|| match &self.server.configuration {
            Some(configuration) => configuration.unknown(key),
            None => format!("there is no setting {key:?}"),
        })
    }

    /// The settings that can be changed, as JSON: of each its value, its default, the form of a
    /// valid value, and how it changes.
    pub(super) fn changeable(&self) -> String {
        let effects = self.effects();
        let known = self.server.configuration.iter().flat_map(|known| known.changeable());
        let one = |setting: Changeable| {
            let about = serde_json::json!({
                "value": self.value_among(setting.key, &effects),
                "default": setting.default,
                "form": setting.form,
                "changes": setting.changes.label(),
            });
            (setting.key.to_owned(), about)
        };
        format!("{:#}", serde_json::Value::Object(known.map(one).collect()))
    }

    /// The values of all settings.
    pub(super) fn values(&self) -> Values {
        let keys = self.server.configuration.iter().flat_map(|configuration| configuration.keys());
        let effects = self.effects();
        keys.filter_map(|key| Some((key, self.value_among(key, &effects)?))).collect()
    }

    /// Says which settings have other values than those had.
    pub(super) fn say_what_changed(&self, before: &Values) {
        for (key, now) in self.values() {
            if let Some(before) = before.get(key).filter(|before| **before != now) {
                say!(Level::Info, "{key} is {now}; it was {before}");
            }
        }
    }

    fn effects(&self) -> Vec<Effect> {
        explain::effects(self.generation.architecture, &self.server.setup.settings)
    }

    fn value_among(&self, key: &str, effects: &[Effect]) -> Option<String> {
        match key {
            ARCH | ARCH_BEFORE => return Some(self.generation.architecture.name().into()),
            "accept.limit" => return Some(self.shared.live().accept_limit().to_string()),
            "workers" => return Some(self.generation.workers.to_string()),
            "listen" => {
                let listens: Vec<_> =
                    self.server.listens().iter().map(ToString::to_string).collect();
                return Some(listens.join(","));
            }
            _ => {}
        }
        let effect = effects.iter().filter(|effect| effect.key == key);
        let effect = effect.filter_map(|effect| effect.value.clone()).next();
        let written = || self.server.configuration.as_ref()?.written(key);
        effect.or_else(|| self.changed.get(key).cloned()).or_else(written)
    }
}
