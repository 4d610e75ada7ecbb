//! The peers: how each is started, and what may be varied of its configuration.
//!
//! A peer gets the same budget of tuning as ours (`flyball tune --server NAME`): what its
//! documentation calls a matter of performance is a variable with the values that are tried. The
//! first value of each is what a peer has unless a definition says otherwise.

use crate::definition::Value;

/// Where Debian keeps the modules of Apache.
pub(super) const APACHE_MODULES: &str = "/usr/lib/apache2/modules";

/// What stands for as many as there are CPUs for the server.
pub(super) const VARIED_BY_CPUS: &str = "@cpus@";

/// A server of others.
pub(super) struct Peer {
    /// Its name in definitions.
    pub name: &'static str,
    pub program: &'static str,
    /// The flag by which it tells its version.
    pub version: &'static str,
    /// The template of its configuration, and the name of the file.
    pub template: &'static str,
    pub file: &'static str,
    /// Arguments, with the names of the template.
    pub arguments: &'static [&'static str],
    /// It knows one file and answers everything with it.
    pub one_file: bool,
    /// Apache's processing module.
    pub mpm: &'static str,
    /// What may be varied.
    pub variables: &'static [Variable],
}

/// A setting of a peer.
pub(super) struct Variable {
    /// Its key in definitions.
    pub key: &'static str,
    /// Its name in the template.
    pub name: &'static str,
    /// The values, each with what stands for it in the template; the first is the default.
    pub values: &'static [(&'static str, &'static str)],
}

impl Variable {
    /// What stands for this value in the template.
    pub fn text(&self, value: Option<&Value>) -> &'static str {
        let value = value.map(ToString::to_string);
        let chosen = self.values.iter().find(|(name, _)| Some(*name) == value.as_deref());
        chosen.or(self.values.first()).map_or("", |(_, text)| *text)
    }
}

macro_rules! template {
    ($name:literal) => {
        include_str!(concat!("../../peers/", $name, ".in"))
    };
}

/// A variable whose values stand for themselves, or for something else.
macro_rules! variable {
    ($key:literal: $($value:literal $(=> $text:expr)?),+) => {
        Variable {
            key: $key,
            name: concat!("@", $key, "@"),
            values: &[$(($value, variable!(@text $value $(=> $text)?))),+],
        }
    };
    (@text $value:literal) => { $value };
    (@text $value:literal => $text:expr) => { $text };
}

/// What most peers have in common.
const PLAIN: Peer = Peer {
    name: "",
    program: "",
    version: "-v",
    template: "",
    file: "",
    arguments: &[],
    one_file: false,
    mpm: "",
    variables: &[],
};

/// Apache, without a processing module.
const APACHE: Peer = Peer {
    program: "apache2",
    template: template!("apache.conf"),
    file: "apache.conf",
    arguments: &["-d", "@dir@", "-f", "@conf@", "-D", "FOREGROUND"],
    ..PLAIN
};

pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "nginx",
        program: "nginx",
        template: template!("nginx.conf"),
        file: "nginx.conf",
        arguments: &["-p", "@dir@", "-c", "@conf@", "-e", "@dir@/error.log"],
        variables: &[
            variable!("workers": "cpus" => VARIED_BY_CPUS, "2", "4"),
            variable!("multi_accept": "off", "on"),
            variable!("accept_mutex": "off", "on"),
            variable!("sendfile": "on", "off"),
            variable!("tcp_nopush": "on", "off"),
            variable!("open_file_cache": "on" => "max=10000 inactive=1h", "off"),
            variable!("aio": "off", "threads"),
            variable!("deferred": "false" => "", "true" => " deferred"),
            variable!("reuseport": "false" => "", "true" => " reuseport"),
        ],
        ..PLAIN
    },
    Peer {
        name: "lighttpd",
        program: "lighttpd",
        template: template!("lighttpd.conf"),
        file: "lighttpd.conf",
        arguments: &["-D", "-f", "@conf@"],
        variables: &[
            variable!("max-worker": "0", "2", "4"),
            variable!("network-backend": "sendfile", "writev", "write"),
            variable!("stat-cache-engine": "simple", "disable"),
        ],
        ..PLAIN
    },
    Peer {
        name: "apache-event",
        mpm: "event",
        variables: &[
            variable!("EnableSendfile": "On", "Off"),
            variable!("EnableMMAP": "On", "Off"),
            variable!("AcceptFilter": "data", "none"),
            variable!("ThreadsPerChild": "64", "128", "256"),
        ],
        ..APACHE
    },
    Peer {
        name: "apache-prefork",
        mpm: "prefork",
        variables: &[
            variable!("EnableSendfile": "On", "Off"),
            variable!("EnableMMAP": "On", "Off"),
            variable!("AcceptFilter": "data", "none"),
            variable!("StartServers": "64", "16", "256"),
        ],
        ..APACHE
    },
    Peer {
        name: "h2o",
        program: "h2o",
        template: template!("h2o.conf"),
        file: "h2o.conf",
        arguments: &["-c", "@conf@"],
        variables: &[variable!("num-threads": "cpus" => VARIED_BY_CPUS, "2", "4")],
        ..PLAIN
    },
    Peer {
        name: "caddy",
        program: "caddy",
        version: "version",
        template: template!("Caddyfile"),
        file: "Caddyfile",
        arguments: &["run", "--adapter", "caddyfile", "--config", "@conf@"],
        ..PLAIN
    },
    Peer {
        name: "mini-httpd",
        program: "mini_httpd",
        version: "-V",
        template: template!("mini_httpd.conf"),
        file: "mini_httpd.conf",
        arguments: &["-D", "-C", "@conf@"],
        ..PLAIN
    },
    Peer {
        name: "haproxy",
        program: "haproxy",
        template: template!("haproxy.cfg"),
        file: "haproxy.cfg",
        arguments: &["-db", "-f", "@conf@"],
        one_file: true,
        variables: &[
            variable!("nbthread": "cpus" => VARIED_BY_CPUS, "2", "4"),
            variable!("maxaccept": "4", "1", "64"),
            variable!("bufsize": "16384", "32768"),
        ],
        ..PLAIN
    },
];
