//! What a site says about its modules.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use flyball_http::Method;
use flyball_module::{Library, Module, OnPanic};
use flyball_sys::secret_file;

use super::builtin;

/// What a shared object begins with.
const ELF: &[u8] = b"\x7fELF";

/// A module and the path that it answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleSettings {
    /// The path; it and all beneath it are meant.
    pub path: String,
    /// Whether only the path itself is.
    pub exact: bool,
    /// A shared object.
    pub library: Option<PathBuf>,
    /// Or the name of a module that is part of the server.
    pub name: Option<String>,
    /// Which requests it answers.
    pub takes: Takes,
    /// When its instance is made.
    pub load: Load,
    /// Whether its calls are taken for such as may block, whatever it says itself (S1, 4.3).
    pub blocking: Option<bool>,
    /// What becomes of a panic that its side of the ABI has caught.
    pub on_panic: OnPanic,
    /// What it is told when it is made.
    pub options: Vec<(String, String)>,
    /// What [`ModuleSettings::check`] made, so that it is not made twice.
    pub made: Made,
}

/// Which requests for its path a module answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Takes {
    /// All of them, and it may ask anything about its clients.
    #[default]
    All,
    /// POST and PUT alone: the path has another meaning besides. It asks nothing about its clients.
    Uploads,
}

impl Takes {
    /// Whether those of this method are among them.
    pub(super) fn has(self, method: Method) -> bool {
        match self {
            Takes::All => true,
            Takes::Uploads => matches!(method, Method::Post | Method::Put),
        }
    }
}

/// When the instance of a module is made. A shared object is in memory from the start in either
/// case: a worker may not make memory executable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Load {
    /// In the master, before workers are forked: each has a copy.
    #[default]
    Start,
    /// By each process at its first request.
    FirstUse,
}

/// An instance that was made when the settings were looked at. All are equal: they are no setting.
#[derive(Clone, Default)]
pub struct Made(pub(super) Arc<OnceLock<Source>>);

/// Where instances come from.
pub(super) struct Source {
    /// Makes one.
    pub(super) maker: Maker,
    /// The one that was made at the start.
    pub(super) instance: OnceLock<Arc<dyn Module>>,
}

#[derive(Clone, Copy)]
pub(super) enum Maker {
    Library(Library),
    Builtin(&'static builtin::Builtin),
}

impl PartialEq for Made {
    fn eq(&self, _: &Made) -> bool {
        true
    }
}

impl Eq for Made {}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Made")
    }
}

impl ModuleSettings {
    /// What `digest-path` stands for.
    pub fn digest(path: &str) -> ModuleSettings {
        ModuleSettings {
            path: path.to_owned(),
            exact: true,
            name: Some("digest".to_owned()),
            takes: Takes::Uploads,
            ..ModuleSettings::default()
        }
    }

    /// Finds the module, and makes its instance if that is to be done at the start: else the key
    /// of the setting that is wrong, and why. Blocks on the disk.
    ///
    /// # Errors
    /// The last part of the key, and a sentence.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let maker = match (&self.library, &self.name) {
            (Some(path), None) => Maker::Library(load(path).map_err(|w| ("library", w))?),
            (None, Some(name)) => {
                let found = builtin::BUILTINS.iter().find(|builtin| builtin.name == name);
                let names: Vec<&str> = builtin::BUILTINS.iter().map(|one| one.name).collect();
                let unknown = || format!("there is no {name}: there are {}", names.join(", "));
                Maker::Builtin(found.ok_or_else(|| ("name", unknown()))?)
            }
            (None, None) => return Err(("path", "one of library and name must be given".into())),
            (Some(_), Some(_)) => {
                return Err(("name", "the module comes from a library already".into()));
            }
        };
        let instance = OnceLock::new();
        if self.load == Load::Start {
            let key = if self.library.is_some() { "library" } else { "name" };
            let made = self.make(maker).map_err(|why| (key, why))?;
            let _ = instance.set(made);
        }
        let _ = self.made.0.set(Source { maker, instance });
        Ok(())
    }

    /// What the log calls it.
    pub fn shown(&self) -> String {
        match (&self.library, &self.name) {
            (Some(path), _) => path.display().to_string(),
            (None, name) => name.clone().unwrap_or_default(),
        }
    }

    /// Makes an instance. May block, as the module does.
    pub(super) fn make(&self, maker: Maker) -> Result<Arc<dyn Module>, String> {
        let mut setup = builtin::HostSetup { options: self.options.clone() };
        match maker {
            Maker::Library(library) => library.open(&mut setup, self.on_panic).map(Arc::from),
            Maker::Builtin(builtin) => (builtin.open)(&mut setup).map(Arc::from),
        }
    }

    /// Whether calls are made where blocking is allowed.
    pub(super) fn blocks(&self, maker: Maker) -> bool {
        self.blocking.unwrap_or_else(|| match maker {
            Maker::Library(library) => library.blocks(),
            Maker::Builtin(builtin) => builtin.blocks,
        })
    }
}

/// Brings a shared object into memory. The linker would wait for a pipe, and for what procfs has to
/// tell: what is no such object is not left to it. Blocks on the disk.
fn load(path: &Path) -> Result<Library, String> {
    match secret_file::begins_with(path, ELF) {
        Ok(true) => Library::load(path),
        Ok(false) => Err(format!("{} is no shared object", path.display())),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}
