//! What the first handshake of a process costs: the provider must draw no entropy from the jitter
//! of the processor, which takes some 40 ms once.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use flyball_tls::{Config, Session};
use rustix::time::{ClockId, clock_gettime};
use rustls::client::Resumption;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

const NAME: &str = "a.test";

/// Where a process is told the certificate and its key.
const CHAIN: &str = "FLYBALL_TEST_CHAIN";
const KEY: &str = "FLYBALL_TEST_KEY";

/// Processes of which the best counts.
const PROCESSES: usize = 5;

fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// How long a handshake takes on both sides.
fn shake_hands(config: &Config, clients: &Arc<ClientConfig>) -> Duration {
    let began = processor_time();
    let mut client = ClientConnection::new(Arc::clone(clients), NAME.try_into().unwrap()).unwrap();
    let mut session = Session::accept(config).unwrap();
    while client.wants_write() {
        let (mut said, mut wire) = (Vec::new(), Vec::new());
        client.write_tls(&mut said).unwrap();
        session.open(&mut said, &mut [], &mut wire);
        let mut told = &wire[..];
        while !told.is_empty() {
            client.read_tls(&mut told).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    assert!(!session.is_handshaking());
    processor_time() - began
}

/// The times of the first two of this process.
fn times(chain: &str, key: &str) -> [Duration; 2] {
    let config = Config::of_one(chain.as_bytes(), key.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()).unwrap();
    let mut clients = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    clients.resumption = Resumption::disabled();
    let clients = Arc::new(clients);
    [(); 2].map(|()| shake_hands(&config, &clients))
}

#[test]
fn the_first_handshake_of_a_process_costs_at_most_five_times_the_second() {
    if let (Ok(chain), Ok(key)) = (std::env::var(CHAIN), std::env::var(KEY)) {
        let [first, second] = times(&chain, &key);
        return println!("\n{} {}", first.as_nanos(), second.as_nanos());
    }
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let shares = (0..PROCESSES).map(|_| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--nocapture", "--test-threads=1"])
            .env(CHAIN, made.cert.pem())
            .env(KEY, made.signing_key.serialize_pem())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = text.lines().find_map(|line| {
            let (first, second) = line.split_once(' ')?;
            Some((first.parse::<u64>().ok()?, second.parse::<u64>().ok()?))
        });
        let (first, second) = told.unwrap_or_else(|| panic!("{text}"));
        first as f64 / second as f64
    });
    let least = shares.fold(f64::INFINITY, f64::min);
    println!("{least:.1} times");
    assert!(least <= 5.0, "{least:.1} times as much");
}
