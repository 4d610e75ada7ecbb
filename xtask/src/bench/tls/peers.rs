//! The servers that speak TLS, each as its configuration for files says (lab/peers), with the same
//! certificate.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use flyball_testkit::Identity;

use crate::bench::contestant::{self, SERVER_CPU, Setup, UNTUNED, is_root};
use crate::bench::failure::Failure;
use crate::bench::files;
use crate::bench::process::{self, Running};

/// A server that is compared.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    /// Flyball with this architecture.
    Flyball(String),
    /// Another.
    Other(&'static Other),
}

/// A server of others: how its configuration is made to speak TLS, and how it is started.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) name: &'static str,
    /// The configuration in lab/peers, without `.in`.
    template: &'static str,
    /// What is put in the place of what.
    secured: &'static [(&'static str, &'static str)],
    /// Arguments; `@file@` is the configuration.
    arguments: &'static [&'static str],
}

/// Their settings are those of their documentation for files, and what TLS needs beside them.
/// nginx has a cache of sessions that its workers share; the others are at their defaults.
pub(super) const OTHERS: &[Other] = &[
    Other {
        name: "nginx",
        template: "nginx.conf",
        secured: &[(
            "listen @host@:@port@ backlog=@backlog@@deferred@@reuseport@;",
            "listen @host@:@port@ backlog=@backlog@ ssl;\n\
             ssl_certificate @pem@; ssl_certificate_key @pem@;\n\
             ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:bench:10m;",
        )],
        arguments: &["-p", "@dir@", "-c", "@file@", "-e", "@dir@/error.log"],
    },
    Other {
        name: "lighttpd",
        template: "lighttpd.conf",
        secured: &[(
            "server.modules = ( \"mod_staticfile\" )",
            "server.modules = ( \"mod_openssl\", \"mod_staticfile\" )\n\
             ssl.engine = \"enable\"\nssl.pemfile = \"@pem@\"",
        )],
        arguments: &["-D", "-f", "@file@"],
    },
    Other {
        name: "h2o",
        template: "h2o.conf",
        secured: &[(
            "  port: @port@\n",
            "  port: @port@\n  ssl:\n    certificate-file: @pem@\n    key-file: @pem@\n",
        )],
        arguments: &["-c", "@file@"],
    },
    Other {
        name: "haproxy",
        template: "haproxy.cfg",
        secured: &[(
            "bind @host@:@port@ backlog @backlog@",
            "bind @host@:@port@ backlog @backlog@ ssl crt @pem@",
        )],
        arguments: &["-f", "@file@"],
    },
    Other {
        name: "caddy",
        template: "Caddyfile",
        secured: &[
            (
                "auto_https off",
                "auto_https off\n\tdefault_sni localhost\n\tservers {\n\t\tprotocols h1\n\t}",
            ),
            ("http://:@port@ {", "https://:@port@ {\n\ttls @pem@ @pem@"),
        ],
        arguments: &["run", "--config", "@file@", "--adapter", "caddyfile"],
    },
];

impl Peer {
    fn name(&self) -> String {
        match self {
            Peer::Flyball(arch) => format!("flyball-{arch}"),
            Peer::Other(other) => other.name.to_owned(),
        }
    }

    /// Whether it has this file: HAProxy answers with one small file.
    pub(super) fn takes_part(&self, path: &str) -> bool {
        !matches!(self, Peer::Other(Other { name: "haproxy", .. })) || path == files::SMALL
    }

    fn command(
        &self,
        address: SocketAddr,
        setup: &Setup,
        directory: &Path,
    ) -> Result<Command, Failure> {
        let write = |name: &str, text: &str| {
            let file = directory.join(name);
            fs::write(&file, text).map_err(Failure::io(file.display())).map(|()| file)
        };
        let Identity { chain, key, .. } = Identity::shared();
        let pem = write("server.pem", &format!("{chain}{key}"))?;
        restrict(&pem)?;
        let values = [
            ("@host@", address.ip().to_string()),
            ("@port@", address.port().to_string()),
            ("@site@", setup.site.display().to_string()),
            ("@dir@", directory.display().to_string()),
            ("@pem@", pem.display().to_string()),
            ("@file@", files::on_disk(&setup.site, files::SMALL).display().to_string()),
        ];
        let fill = |text: &str, values: &[(&str, String)]| {
            values.iter().fold(text.to_owned(), |text, (key, value)| text.replace(key, value))
        };
        match self {
            Peer::Flyball(arch) => {
                let site = "[[site]]\nroot = \"@site@\"\ncertificate = \"@pem@\"\n";
                let config = write("flyball.toml", &fill(site, &values))?;
                let mut command = process::pinned(SERVER_CPU, &setup.flyball)?;
                command.arg("serve").arg("--config").arg(config);
                command.args(["--listen", &format!("https://{address}"), "--arch", arch]);
                command.args(["--workers", "1", "--access-log", "off"]);
                command.args(setup.flyball_settings.iter().flat_map(|set| ["--set", set]));
                Ok(command)
            }
            Peer::Other(other) => {
                let text = fill(&other.text(&setup.peers)?, &values);
                let config = write(other.template, &text)?;
                let program = process::find(other.name)?;
                let mut command = process::pinned(SERVER_CPU, &program)?;
                let told = [
                    ("@file@", config.display().to_string()),
                    ("@dir@", directory.display().to_string()),
                ];
                command.args(other.arguments.iter().map(|argument| fill(argument, &told)));
                Ok(command)
            }
        }
    }
}

impl Other {
    /// Its configuration for files where it speaks TLS, with places to be filled in.
    fn text(&self, peers: &Path) -> Result<String, Failure> {
        let template = peers.join(format!("{}.in", self.template));
        let mut text = fs::read_to_string(&template).map_err(Failure::io(template.display()))?;
        for (from, to) in self.secured {
            if !text.contains(from) {
                return Err(Failure::Broken(format!("{}: no {from}", template.display())));
            }
            text = text.replace(from, to);
        }
        let user = if is_root() { "user root;" } else { "" };
        let account = if is_root() { "root" } else { "nobody" };
        let ours = [
            ("@user@", user),
            ("@account@", account),
            ("@backlog@", "4096"),
            ("@workers@", "1"),
            ("@num-threads@", "1"),
            ("@nbthread@", "1"),
            ("@maxaccept@", "4"),
            ("@bufsize@", "16384"),
        ];
        let values = ours.iter().chain(UNTUNED);
        Ok(values.fold(text, |text, (key, value)| text.replace(key, value)))
    }
}

/// A key is for its owner.
fn restrict(file: &Path) -> Result<(), Failure> {
    let mode = fs::Permissions::from_mode(0o600);
    fs::set_permissions(file, mode).map_err(Failure::io(file.display()))
}

/// A peer that accepts connections. Ended when dropped.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) peer: Peer,
    pub(super) address: SocketAddr,
    pub(super) running: Running,
}

impl Server {
    /// Starts a peer at the nth address, and waits until it accepts.
    pub(super) fn start(peer: &Peer, nth: usize, setup: &Setup) -> Result<Server, Failure> {
        let directory = setup.scratch.join(peer.name());
        // What an earlier comparison left; it need not be there.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).map_err(Failure::io(directory.display()))?;
        let address = contestant::free_address(nth);
        let address = address.map_err(Failure::io("looking for a free port"))?;
        let mut command = peer.command(address, setup, &directory)?;
        let log = directory.join("output.log");
        let output = File::create(&log).map_err(Failure::io(log.display()))?;
        command.stderr(output.try_clone().map_err(Failure::io(log.display()))?).stdout(output);
        let mut running = Running::start(&mut command)?;
        contestant::wait_until_ready(&mut running, address, &peer.name(), &log)?;
        Ok(Server { peer: peer.clone(), address, running })
    }

    pub(super) fn name(&self) -> String {
        self.peer.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_can_be_made_to_speak_tls_and_is_filled_in() {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/peers");
        for other in OTHERS {
            let text = other.text(&peers).unwrap();
            assert!(text.contains("@pem@"), "{}", other.name);
            let settings = text.lines().filter(|line| !line.trim_start().starts_with('#'));
            let left = settings.flat_map(|line| line.split('@').skip(1).step_by(2));
            let known = ["host", "port", "site", "dir", "pem", "file"];
            let unknown: Vec<_> = left.filter(|name| !known.contains(name)).collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", other.name);
        }
    }
}
