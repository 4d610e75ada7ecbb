//! What is said about who may come to a site.

use std::path::PathBuf;

use super::admission::Admission;

/// Who may come to a site, and what for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSettings {
    /// From where one may come, unless a rule says something else.
    pub admission: Admission,
    /// From where one may come to what is beneath a path, of which the rule with the longest holds
    /// and no other, and to what fits a pattern, of which all hold besides.
    pub rules: Vec<AccessRule>,
    /// Who has to log in.
    pub auth: AuthSettings,
}

/// From where one may come to what is beneath a path, or fits a pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRule {
    /// The path, from the root of the site.
    pub path: Option<String>,
    /// Or the pattern of paths.
    pub pattern: Option<String>,
    /// From where.
    pub admission: Admission,
}

/// Basic authentication (RFC 7617).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSettings {
    /// The users and the hashes of their passwords; `None` asks nobody.
    pub file: Option<PathBuf>,
    /// What the client shows when it asks for a password.
    pub realm: String,
    /// Beneath which paths one has to log in.
    pub paths: Vec<String>,
    /// For how long a login that was verified is not verified again, in milliseconds.
    pub remember_ms: u64,
    /// Failed logins in a minute, for each client address and for each user, over all sites that
    /// have the same file.
    pub failures_per_minute: u64,
}

impl Default for AuthSettings {
    fn default() -> AuthSettings {
        AuthSettings {
            file: None,
            realm: "restricted".into(),
            paths: vec!["/".into()],
            remember_ms: 5 * 60_000,
            failures_per_minute: 20,
        }
    }
}
