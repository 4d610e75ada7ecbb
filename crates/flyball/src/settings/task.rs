//! What settings are for: the sections of their documentation, by task.

/// What a setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Start and stop.
    Start,
    /// Run with few rights.
    Safety,
    /// Limit what clients may take.
    Limits,
    /// Know the client behind a proxy.
    Clients,
    /// Log.
    Logs,
    /// Watch and control.
    Admin,
    /// Cache files.
    Caches,
    /// Send answers.
    Sending,
    /// Hold long bodies.
    Bodies,
    /// Accept and schedule connections.
    Accepting,
    /// Stay steady when there is more to do than the server can.
    Overload,
    /// Size an architecture.
    Architectures,
    /// Experiment; these have a page of their own.
    Experiment,
    /// Serve files.
    Files,
    /// Answer paths that are no files.
    Routes,
    /// Admit clients.
    Access,
    /// Serve HTTPS.
    Tls,
    /// Get certificates.
    Acme,
    /// Compress.
    Compression,
    /// A key of a table, which has a section itself.
    Table,
}

impl Task {
    /// Those of the server, in the order of the documentation.
    pub(super) const OF_SERVER: [Task; 14] = [
        Task::Start,
        Task::Tls,
        Task::Acme,
        Task::Safety,
        Task::Limits,
        Task::Clients,
        Task::Logs,
        Task::Admin,
        Task::Caches,
        Task::Sending,
        Task::Bodies,
        Task::Accepting,
        Task::Overload,
        Task::Architectures,
    ];

    /// Those of a site, in the order of the documentation.
    pub(super) const OF_SITE: [Task; 6] =
        [Task::Files, Task::Logs, Task::Tls, Task::Routes, Task::Access, Task::Compression];

    /// The heading of its section.
    pub(super) fn title(self) -> &'static str {
        match self {
            Task::Start => "Start and stop the server",
            Task::Safety => "Run with few rights",
            Task::Limits => "Limit what clients may take",
            Task::Clients => "Know the client behind a proxy",
            Task::Logs => "Log",
            Task::Admin => "Watch and control the server",
            Task::Caches => "Cache files",
            Task::Sending => "Send answers",
            Task::Bodies => "Hold long bodies",
            Task::Accepting => "Accept and schedule connections",
            Task::Overload => "Stay steady under overload",
            Task::Architectures => "Size an architecture",
            Task::Experiment => "Experiment",
            Task::Files => "Serve files",
            Task::Routes => "Answer other paths",
            Task::Access => "Admit clients",
            Task::Tls => "Serve HTTPS",
            Task::Acme => "Get certificates",
            Task::Compression => "Compress answers",
            Task::Table => "Tables",
        }
    }
}
