//! A directory, and a server that serves it until the test ends.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use flyball_testkit::{Identity, Launch, Server};

/// A directory that one worker serves. What lies beside its root is not served.
pub struct Served {
    // Ends before the directory goes.
    server: Server,
    directory: tempfile::TempDir,
}

impl Served {
    /// Serves an empty directory with these keys of its site and these settings.
    pub fn start(arch: &str, site: &str, settings: &[&str]) -> Served {
        let directory = tempfile::Builder::new().prefix("flyball-served-").tempdir();
        let directory = directory.expect("a temporary directory");
        let root = directory.path().join("root");
        fs::create_dir(&root).expect("a directory can be made");
        let config = format!("[[site]]\nroot = {:?}\n{site}\n", root.display().to_string());
        let mut launch = Launch::config(config);
        for argument in ["--arch", arch, "--workers", "1"] {
            launch = launch.and(argument);
        }
        for setting in settings {
            launch = launch.and("--set").and(*setting);
        }
        let server = launch.start().unwrap_or_else(|refused| panic!("{arch}: {refused}"));
        Served { server, directory }
    }

    /// What is served.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// The directory that holds the root.
    pub fn around(&self) -> &Path {
        self.directory.path()
    }

    /// A place beside the root.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub fn url(&self, path: &str) -> String {
        let scheme = if self.server.is_secure() { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.server.address())
    }

    /// A file with the certificate of the server, which clients are to trust.
    pub fn trusted(&self) -> PathBuf {
        let file = self.beside("trusted.pem");
        put(&file, &Identity::shared().chain);
        file
    }

    /// Whether clients speak TLS.
    pub fn is_secure(&self) -> bool {
        self.server.is_secure()
    }

    /// Stops the server, which then has written all that it writes, and keeps the directory.
    pub fn stop(self) -> tempfile::TempDir {
        self.server.terminate();
        self.server.wait();
        self.directory
    }
}

/// Writes a file, and the directories that lead to it.
pub fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("it can be made");
    fs::write(path, bytes).expect("a file can be written");
}
