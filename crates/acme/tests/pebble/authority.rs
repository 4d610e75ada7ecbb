//! Pebble, and the server of names that it asks.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use flyball_testkit::wait::{DEADLINE, until};
use flyball_testkit::{free_address, skip};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;

use crate::responder::{Responder, answer_each};

/// Starts of the two programs, where another process takes a port that was free.
const STARTS: usize = 5;

/// Key identifier and key of an external account that Pebble knows.
pub(crate) const EXTERNAL: (&str, &str) =
    ("kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W");

/// How it differs from the usual one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ways {
    /// Percentage of good nonces that it refuses.
    pub(crate) refuses_nonces: u8,
    /// It asks once whether a name is ours, and believes it afterwards.
    pub(crate) remembers: bool,
    /// Accounts must belong to an external one.
    pub(crate) wants_external: bool,
    /// Where it shall listen.
    pub(crate) at: Option<SocketAddr>,
}

/// A running authority.
pub(crate) struct Authority {
    directory: tempfile::TempDir,
    pub(crate) at: SocketAddr,
    management: SocketAddr,
    names: SocketAddr,
    programs: Vec<Child>,
}

impl Authority {
    /// Starts one that looks for challenges at the responder; `None` when Pebble is not installed.
    pub(crate) fn start(responder: &Responder, ways: Ways) -> Option<Authority> {
        let (Some(pebble), Some(server)) = (program("pebble"), program("pebble-challtestsrv"))
        else {
            skip("pebble and pebble-challtestsrv are not installed");
            return None;
        };
        let started =
            (0..STARTS).find_map(|_| Authority::try_start(&pebble, &server, responder, ways));
        Some(started.expect("Pebble starts"))
    }

    fn try_start(
        pebble: &Path,
        server: &Path,
        responder: &Responder,
        ways: Ways,
    ) -> Option<Authority> {
        let directory = tempfile::tempdir().unwrap();
        let (at, management) = (ways.at.unwrap_or_else(free_address), free_address());
        let (dns, names) = (free_address(), free_address());
        make_certificate(directory.path());
        let path = |name: &str| directory.path().join(name);
        let configuration = json!({"pebble": {
            "listenAddress": at.to_string(),
            "managementListenAddress": management.to_string(),
            "certificate": path("cert.pem"),
            "privateKey": path("key.pem"),
            "httpPort": responder.http.port(),
            "tlsPort": responder.tls.port(),
            "externalAccountBindingRequired": ways.wants_external,
            "externalAccountMACKeys": {EXTERNAL.0: EXTERNAL.1},
            "retryAfter": {"authz": 0, "order": 0},
            "keyAlgorithm": "ecdsa",
            "profiles": {
                "default": {"description": "usual", "validityPeriod": 7_776_000},
                "shortlived": {"description": "six days", "validityPeriod": 518_400},
            },
        }});
        fs::write(path("pebble.json"), configuration.to_string()).unwrap();
        let log = |name: &str| fs::File::create(path(name)).unwrap();
        let dns_server = Command::new(server)
            .args(["-http01", "", "-https01", "", "-doh", "", "-tlsalpn01", ""])
            .args(["-dnsserver", &dns.to_string(), "-management", &names.to_string()])
            .args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""])
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
    pub(crate) fn url(&self) -> String {
        directory_at(self.at)
    }

    /// What its own server is known by.
    pub(crate) fn roots(&self) -> PathBuf {
        self.directory.path().join("root.pem")
    }

    /// How many certificates it has issued.
    pub(crate) fn issued(&self) -> usize {
        self.log_count("Issued certificate serial")
    }

    /// How often its log has said so.
    pub(crate) fn log_count(&self, text: &str) -> usize {
        fs::read_to_string(self.directory.path().join("pebble.log")).unwrap().matches(text).count()
    }

    /// A server with its certificate that answers every request so: status line and fields.
    pub(crate) fn busy_front(&self, head: &'static str) -> SocketAddr {
        let read = |name: &str| fs::read(self.directory.path().join(name)).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(&read("cert.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(&read("key.pem")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        answer_each(config, head)
    }

    /// Writes a command that sets and clears records.
    pub(crate) fn hook(&self) -> PathBuf {
        let path = self.directory.path().join("hook.sh");
        let names = self.names;
        let script = format!(
            "#!/bin/sh\nset -e\necho \"$@\" >> \"$0.log\"\n\
             curl -sf -d \"{{\\\"host\\\":\\\"$2.\\\",\\\"value\\\":\\\"$3\\\"}}\" \
             http://{names}/$1-txt\n"
        );
        fs::write(&path, script).unwrap();
        path
    }

    /// What the command was called with.
    pub(crate) fn hook_calls(&self) -> String {
        fs::read_to_string(self.directory.path().join("hook.sh.log")).unwrap_or_default()
    }

    /// From now on it advises to renew this certificate between these times.
    pub(crate) fn advise(&self, certificate: &str, start: &str, end: &str) {
        let answer = json!({"suggestedWindow": {"start": start, "end": end}}).to_string();
        let body = json!({"certificate": certificate, "ariResponse": answer}).to_string();
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
pub(crate) fn directory_at(at: SocketAddr) -> String {
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
