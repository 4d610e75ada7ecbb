//! What changes of TLS while a worker runs: certificates that were renewed, the keys of tickets,
//! which files they are in, what authorities are answered, and the time. The master leaves it in
//! memory that is shared, and each process looks when it reads the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flyball_site::Sites;
use flyball_sys::letterbox::Reader;
use flyball_tls::{Bundle, Config};

/// What a process knows of it.
#[derive(Debug)]
pub struct Renewals {
    config: Config,
    sites: Arc<Sites>,
    reader: Arc<Reader>,
    /// The number of the last text that was taken over.
    taken: AtomicU64,
}

impl Renewals {
    /// Those of what is spoken by this for these sites, as they are read there.
    pub fn new(config: Config, sites: Arc<Sites>, reader: Arc<Reader>) -> Renewals {
        Renewals { config, sites, reader, taken: AtomicU64::new(0) }
    }

    /// Tells the time, and takes over what has changed since the last look of any thread of the
    /// process.
    pub(crate) fn look(&self, unix_ms: u64) {
        self.config.tell(unix_ms / 1_000);
        let number = self.reader.number();
        if number != self.taken.load(Relaxed) {
            self.take(number);
        }
    }

    /// What is not whole is taken at the next look.
    #[cold]
    fn take(&self, number: u64) {
        let before = self.taken.swap(number, Relaxed);
        if before == number {
            return;
        }
        let text = self.reader.text().unwrap_or_default();
        match Bundle::from_bytes(&text) {
            Some(mut bundle) => {
                self.sites.keep_from_clients(&bundle.secrets);
                self.sites.answer_challenges(std::mem::take(&mut bundle.answers));
                self.config.take(bundle);
                self.sites.show_certificates(|site| self.config.shows(site));
            }
            None => self.taken.store(before, Relaxed),
        }
    }
}
