//! What one setting is: the unit that the tables are made of.

use std::path::Path;

use flyball_arch::{ALL, Settings};
use flyball_server::Changes;

use super::kind::{Kind, Mismatch};
use super::raw::Raw;
pub use super::task::Task;

/// One setting: everything that there is to know of it. Parser, help and documentation are made
/// from it, and what may change while the server runs, which architectures use it, and what
/// `flyball tune` tries.
///
/// `T` is what it is stored in: [`Settings`], or one site's
/// [`SiteSettings`](flyball_site::SiteSettings).
pub struct Setting<T: 'static = Settings> {
    /// The dotted key, as in `--set KEY=VALUE` and in the configuration file.
    pub key: &'static str,
    /// What it is for, and so on which page it stands.
    pub task: Task,
    /// The flag of the same meaning, when it has one of its own.
    pub flag: Option<Flag>,
    /// The kind of value.
    pub kind: Kind<T>,
    /// A word that is valid beside the kind's values, such as `auto` or `off`.
    pub word: Option<Word<T>>,
    /// The default as it would be written; `None` when the setting must be given.
    pub default: Option<&'static str>,
    /// What it does, in one line.
    pub doc: &'static str,
    /// What else there is to know; may be empty.
    pub more: &'static str,
    /// The paper, RFC or manual page that it comes from; may be empty.
    pub source: &'static str,
    /// How a running server takes a change.
    pub changes: Changes,
    /// Which architectures use it.
    pub used_by: UsedBy,
    /// The values that `flyball tune` tries.
    pub tune: Option<Range>,
}

/// Which architectures use a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsedBy {
    /// All of them, but for those that say that they ignore it.
    All,
    /// Those that name it among theirs.
    Some,
}

/// Values of a setting that are worth trying, its default among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The values.
    pub values: &'static [&'static str],
    /// Whether they go from little to much.
    pub ordered: bool,
}

/// A flag of the command line.
#[derive(Clone, Copy)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// What stands for its value in help, such as `N` or `select|poll`.
    pub value: &'static str,
}

/// A word with a meaning of its own.
pub struct Word<T: 'static> {
    /// The word.
    pub name: &'static str,
    /// Stores its meaning.
    pub set: fn(&mut T),
}

/// A table below another one that may come any number of times, such as `[[site.redirect]]`.
pub struct Table<T: 'static> {
    /// Its key, without that of the table above.
    pub key: &'static str,
    /// What its tables are, in one line.
    pub doc: &'static str,
    /// What else there is to know; may be empty.
    pub more: &'static str,
    /// Adds one whose keys have their defaults; what is read next goes into it.
    pub begin: fn(&mut T),
    /// Its keys. Each fills the last table that was begun.
    pub settings: &'static [Setting<T>],
}

impl<T> Setting<T> {
    /// What most rows have in common; each has a key, a kind and a line of documentation besides.
    pub(super) const ROW: Setting<T> = Setting {
        key: "",
        task: Task::Table,
        flag: None,
        kind: Kind::Switch { set: |_, _| {} },
        word: None,
        default: None,
        doc: "",
        more: "",
        source: "",
        changes: Changes::Reload,
        used_by: UsedBy::All,
        tune: None,
    };

    /// Reads a value and stores it. Relative paths start from `base`. Nothing blocks.
    ///
    /// # Errors
    /// What was expected and what was found; `target` is then as it was.
    pub fn apply(&self, target: &mut T, raw: &Raw, base: &Path) -> Result<(), Mismatch> {
        if let (Some(word), Some(text)) = (&self.word, raw.text())
            && word.name == text
        {
            (word.set)(target);
            return Ok(());
        }
        self.kind.apply(target, raw, base).map_err(|mut mismatch| {
            if let Some(word) = &self.word {
                mismatch.expected = format!("{}, or {}", mismatch.expected, word.name);
            }
            mismatch
        })
    }

    /// Whether it is for experiments only, which have a page of their own.
    pub fn is_experiment(&self) -> bool {
        self.task == Task::Experiment
    }

    /// The names of the architectures that use it; `None` when all do.
    pub fn architectures(&self) -> Option<Vec<&'static str>> {
        let uses = |arch: &&&dyn flyball_arch::Architecture| match self.used_by {
            UsedBy::All => !arch.ignores().contains(&self.key),
            UsedBy::Some => arch.honours(self.key),
        };
        let names: Vec<&str> = ALL.iter().filter(uses).map(|arch| arch.name()).collect();
        (names.len() < ALL.len()).then_some(names)
    }

    /// The form of a valid value in words.
    pub fn form(&self) -> String {
        match &self.word {
            Some(word) => format!("{}, or {}", self.kind.form(), word.name),
            None => self.kind.form(),
        }
    }
}

/// How many settings, or tables, the groups have in all.
pub(super) const fn count<T>(groups: &[&[T]]) -> usize {
    let (mut sum, mut at) = (0, 0);
    while at < groups.len() {
        sum += groups[at].len();
        at += 1;
    }
    sum
}

/// The groups as one list of `N`, which is what [`count`] says.
pub(super) const fn join<T: Copy, const N: usize>(groups: &[&[T]]) -> [T; N] {
    let mut all = [groups[0][0]; N];
    let (mut next, mut group) = (0, 0);
    while group < groups.len() {
        let mut at = 0;
        while at < groups[group].len() {
            all[next] = groups[group][at];
            next += 1;
            at += 1;
        }
        group += 1;
    }
    all
}

/// The setting of this key.
pub fn find<T>(table: &'static [Setting<T>], key: &str) -> Option<&'static Setting<T>> {
    table.iter().find(|setting| setting.key == key)
}

/// The last parts of the keys that begin with this name and a dot.
pub(super) fn keys_beneath<T>(table: &'static [Setting<T>], name: &str) -> Vec<&'static str> {
    let key = |setting: &Setting<T>| setting.key.strip_prefix(name)?.strip_prefix('.');
    table.iter().filter_map(key).collect()
}

/// Whether there are any.
pub(super) fn has_keys_beneath<T>(table: &'static [Setting<T>], name: &str) -> bool {
    !keys_beneath(table, name).is_empty()
}

// Derived, these would ask the same of `T`, of which nothing is held.
impl<T> Clone for Setting<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Setting<T> {}

// Derived, these would ask the same of `T`, of which nothing is held.
impl<T> Clone for Word<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Word<T> {}

// Derived, these would ask the same of `T`, of which nothing is held.
impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Table<T> {}
