//! Pebble, the test authority of Let's Encrypt, and the server of names that it asks.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::address::free_address;
use crate::skip::skip;
use crate::wait::{DEADLINE, until};

/// Starts of the two programs, where another process takes a port that was free.
const STARTS: usize = 5;

/// Key identifier and key of an external account that Pebble knows.
pub const EXTERNAL: (&str, &str) =
    ("kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W");

/// How it differs from the usual one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ways {
    /// Percentage of good nonces that it refuses.
    pub refuses_nonces: u8,
    /// It asks once whether a name is ours, and believes it afterwards.
    pub remembers: bool,
    /// Accounts must belong to an external one.
    pub wants_external: bool,
    /// Where it shall listen.
    pub at: Option<SocketAddr>,
}

/// A running authority.
#[derive(Debug)]
pub struct Authority {
    directory: tempfile::TempDir,
    /// Where it listens.
    pub at: SocketAddr,
    management: SocketAddr,
    names: SocketAddr,
    programs: Vec<Child>,
}

impl Authority {
    /// Starts one that looks for challenges at these addresses of one host, the first in the clear;
    /// `None` when Pebble is not installed.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(hosts: (SocketAddr, SocketAddr), ways: Ways) -> Option<Authority> {
        let (Some(pebble), Some(server)) = (program("pebble"), program("pebble-challtestsrv"))
        else {
            skip("pebble and pebble-challtestsrv are not installed");
            return None;
        };
        let started = (0..STARTS).find_map(|_| Authority::try_start(&pebble, &server, hosts, ways));
        Some(started.expect("Pebble starts"))
    }

    fn try_start(
        pebble: &Path,
        server: &Path,
        hosts: (SocketAddr, SocketAddr),
        ways: Ways,
    ) -> Option<Authority> {
        let directory = tempfile::tempdir().unwrap();
        let (at, management) = (ways.at.unwrap_or_else(free_address), free_address());
        let (dns, names) = (free_address(), free_address());
        make_certificate(directory.path());
        let path = |name: &str| directory.path().join(name);
        let (certificate, key) = (path("cert.pem"), path("key.pem"));
        let (external_id, external_key) = EXTERNAL;
        let configuration = format!(
            r#"{{"pebble": {{
                "listenAddress": "{at}", "managementListenAddress": "{management}",
                "certificate": {certificate:?}, "privateKey": {key:?},
                "httpPort": {}, "tlsPort": {},
                "externalAccountBindingRequired": {},
                "externalAccountMACKeys": {{{external_id:?}: {external_key:?}}},
                "retryAfter": {{"authz": 0, "order": 0}}, "keyAlgorithm": "ecdsa",
                "profiles": {{
                    "default": {{"description": "usual", "validityPeriod": 7776000}},
                    "shortlived": {{"description": "six days", "validityPeriod": 518400}}
                }}
            }}}}"#,
            hosts.0.port(),
            hosts.1.port(),
            ways.wants_external
        );
        fs::write(path("pebble.json"), configuration).unwrap();
        let log = |name: &str| fs::File::create(path(name)).unwrap();
        let dns_server = Command::new(server)
            .args(["-http01", "", "-https01", "", "-doh", "", "-tlsalpn01", ""])
            .args(["-dnsserver", &dns.to_string(), "-management", &names.to_string()])
            .args(["-defaultIPv4", &hosts.0.ip().to_string(), "-defaultIPv6", ""])
            .stdin(Stdio::null())
            .stdout(log("names.log"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let authority = Command::new(pebble)
            .args(["-dnsserver", &dns.to_string(), "-config"])
            .arg(path("pebble.json"))
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", ways.refuses_nonces.to_string())
            .env("PEBBLE_AUTHZREUSE", if ways.remembers { "100" } else { "0" })
            .stdin(Stdio::null())
            .stdout(log("pebble.log"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let programs = vec![dns_server, authority];
        let mut started = Authority { directory, at, management, names, programs };
        let is_up = until(DEADLINE, || {
            let listens = |at: SocketAddr| TcpStream::connect(at).is_ok();
            match started.programs.iter_mut().any(|program| program.try_wait().unwrap().is_some()) {
                true => Some(false),
                false => [at, management, names].into_iter().all(listens).then_some(true),
            }
        });
        (is_up == Some(true)).then_some(started)
    }

    /// The URL of its directory.
    pub fn url(&self) -> String {
        directory_at(self.at)
    }

    /// What its own server is known by.
    pub fn roots(&self) -> PathBuf {
        self.directory.path().join("root.pem")
    }

    /// How many certificates it has issued.
    pub fn issued(&self) -> usize {
        self.log_count("Issued certificate serial")
    }

    /// How often its log has said so.
    ///
    /// # Panics
    /// When the disk fails.
    pub fn log_count(&self, text: &str) -> usize {
        fs::read_to_string(self.directory.path().join("pebble.log")).unwrap().matches(text).count()
    }

    /// One of its own files: `cert.pem` and `key.pem` are those of its server.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a command that sets and clears records, which every user can run.
    ///
    /// # Panics
    /// When the disk fails.
    pub fn hook(&self) -> PathBuf {
        let path = self.directory.path().join("hook.sh");
        let names = self.names;
        let script = format!(
            "#!/bin/sh\nset -e\necho \"$@\" >> \"$0.log\"\n\
             curl -sf -d \"{{\\\"host\\\":\\\"$2.\\\",\\\"value\\\":\\\"$3\\\"}}\" \
             http://{names}/$1-txt\n"
        );
        fs::write(&path, script).unwrap();
        let log = self.path("hook.sh.log");
        fs::write(&log, "").unwrap();
        for (path, mode) in [(self.directory.path(), 0o711), (&path, 0o644), (&log, 0o666)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        path
    }

    /// What the command was called with.
    pub fn hook_calls(&self) -> String {
        fs::read_to_string(self.path("hook.sh.log")).unwrap_or_default()
    }

    /// Whether the certificate of this serial number, in hexadecimal digits, is revoked.
    ///
    /// # Panics
    /// When it does not say.
    pub fn has_revoked(&self, serial: &str) -> bool {
        let url = format!("https://{}/cert-status-by-serial/{serial}", self.management);
        let mut asked = Command::new("curl");
        asked.args(["-sSf", "--cacert"]).arg(self.roots()).arg(&url);
        let said = asked.output().unwrap();
        assert!(said.status.success(), "{said:?}");
        String::from_utf8_lossy(&said.stdout).contains("\"Revoked\"")
    }

    /// From now on it advises to renew this certificate between these times.
    ///
    /// # Panics
    /// When it does not take that.
    pub fn advise(&self, certificate: &str, start: &str, end: &str) {
        let window = format!("{{\"start\": {start:?}, \"end\": {end:?}}}");
        let answer = format!("{{\"suggestedWindow\": {window}}}");
        // Escapes of Rust's are those of JSON for what PEM is made of.
        let body = format!("{{\"certificate\": {certificate:?}, \"ariResponse\": {answer:?}}}");
        let url = format!("https://{}/set-renewal-info/", self.management);
        let done = Command::new("curl")
            .args(["-sSf", "--cacert"])
            .arg(self.roots())
            .args(["-d", &body, &url])
            .status()
            .unwrap();
        assert!(done.success());
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        for program in &mut self.programs {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

/// The URL of a directory of Pebble's that is there, or is not.
pub fn directory_at(at: SocketAddr) -> String {
    format!("https://{at}/dir")
}

/// Where a program is: on the path, or where `go install` puts it.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin"));
    std::env::split_paths(&path).chain(home).map(|at| at.join(name)).find(|path| path.is_file())
}

/// A certificate for addresses of the loopback, its key, and its root.
fn make_certificate(directory: &Path) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Of the same name as the leaf it would be the leaf's own to OpenSSL.
    params.distinguished_name.push(DnType::CommonName, "root");
    let root = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = ["127.0.0.1".to_string(), "127.64.0.1".into()];
    let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &root).unwrap();
    fs::write(directory.join("root.pem"), root.pem()).unwrap();
    fs::write(directory.join("cert.pem"), leaf.pem()).unwrap();
    fs::write(directory.join("key.pem"), key.serialize_pem()).unwrap();
}
