//! A server that speaks TLS, with certificates of its own, and clients of it: curl and openssl.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use flyball_testkit::{Launch, Refused, Server, binary};
use rcgen::{
    CertificateParams, CertificateRevocationListParams, ExtendedKeyUsagePurpose, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SignatureAlgorithm, date_time_ymd,
};
use tempfile::TempDir;

/// An authority, and the directory where what it issues lies beside a root.
pub(crate) struct Authority {
    directory: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        Authority::named("the authority of a test")
    }

    /// One whose common name is this.
    pub(crate) fn named(name: &str) -> Authority {
        let directory = tempfile::Builder::new().prefix("flyball-tls-").tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::CrlSign, KeyUsagePurpose::KeyCertSign];
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let own = params.self_signed(&key).unwrap();
        let authority = Authority { directory, issuer: Issuer::new(params, key) };
        fs::write(authority.path("ca.pem"), own.pem()).unwrap();
        fs::create_dir(authority.path("root")).unwrap();
        fs::write(authority.path("root/index.html"), "over TLS\n").unwrap();
        authority
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Issues a certificate for these names, and puts it with its key into one file, as renewals
    /// do: whole at once.
    pub(crate) fn issue(&self, file: &str, names: &[&str]) {
        self.issue_by(file, names, |_| {});
    }

    pub(crate) fn issue_by(
        &self,
        file: &str,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        self.sign(file, &params, &key);
    }

    /// The same for a key of this kind.
    pub(crate) fn issue_kind(
        &self,
        file: &str,
        names: &[&str],
        kind: &'static SignatureAlgorithm,
        change: impl FnOnce(&mut CertificateParams),
    ) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        self.sign(file, &params, &KeyPair::generate_for(kind).unwrap());
    }

    fn sign(&self, file: &str, params: &CertificateParams, key: &KeyPair) {
        let made = params.signed_by(key, &self.issuer).unwrap();
        self.write(file, &format!("{}{}", made.pem(), key.serialize_pem()), 0o600);
    }

    /// Puts a list into a file that revokes the certificates of these numbers, and is to be
    /// replaced when this year begins. Its own number is 1.
    pub(crate) fn revoke(&self, file: &str, numbers: &[u64], year: i32) {
        self.revoke_by(1, file, numbers, year);
    }

    /// The same by a list of this number.
    pub(crate) fn revoke_by(&self, number: u64, file: &str, numbers: &[u64], year: i32) {
        let revoked = numbers.iter().map(|number| RevokedCertParams {
            serial_number: (*number).into(),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(year, 1, 1),
            crl_number: number.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).unwrap();
        self.write(file, &list.pem().unwrap(), 0o644);
    }

    /// Puts a file in the place of one that may be there.
    pub(crate) fn write(&self, file: &str, text: &str, mode: u32) {
        let next = self.path("next");
        fs::write(&next, text).unwrap();
        fs::set_permissions(&next, fs::Permissions::from_mode(mode)).unwrap();
        fs::rename(next, self.path(file)).unwrap();
    }

    /// Whether what a server shows is what is in the file.
    pub(crate) fn is_in(&self, file: &str, shown: &str) -> bool {
        let text = fs::read_to_string(self.path(file)).unwrap();
        let end = "-----END CERTIFICATE-----";
        let certificate = text.split(end).next().unwrap().replace("\r\n", "\n");
        shown.contains(certificate.trim_end())
    }

    /// A site with these hosts and further lines, and its certificate in this file.
    pub(crate) fn site(&self, hosts: &str, file: &str, lines: &str) -> String {
        let (root, file) = (self.path("root"), self.path(file));
        format!("[[site]]\nhosts = [{hosts}]\nroot = {root:?}\ncertificate = {file:?}\n{lines}\n")
    }

    /// Starts a server that speaks TLS at one address, and plain text at another.
    pub(crate) fn launch(&self, config: &str) -> Result<Server, Refused> {
        Launch::config(config).and("--listen=https://127.0.0.1:0").start()
    }

    #[track_caller]
    pub(crate) fn start(&self, config: &str) -> Server {
        self.launch(config).expect("it starts")
    }

    /// What `flyball check` says of the same, which must be right: its output, and its warnings.
    /// The configuration lies in `checked.toml` then.
    #[track_caller]
    pub(crate) fn check(&self, config: &str) -> (String, String) {
        self.write("checked.toml", &format!("listen = \"https://127.0.0.1:0\"\n{config}"), 0o600);
        let mut check = Command::new(binary());
        let check = check.arg("check").arg("--config").arg(self.path("checked.toml"));
        let output = check.output().unwrap();
        let [told, warned] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "{told}{warned}");
        (told, warned)
    }

    /// What curl says of a request to `host` over TLS, with more arguments: the status, then the
    /// body.
    pub(crate) fn curl(&self, server: &Server, host: &str, more: &[&str]) -> (String, Output) {
        let address = server.secure();
        let url = format!("https://{host}:{}/", address.port());
        let resolve = format!("{host}:{}:127.0.0.1", address.port());
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "60", "-w", "%{http_code}", "--resolve", &resolve])
            .arg("--cacert")
            .arg(self.path("ca.pem"))
            .args(more)
            .arg(&url)
            .output()
            .expect("curl is there");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (text, output)
    }

    /// What `openssl s_client` prints of a request to `host`.
    pub(crate) fn openssl(&self, server: &Server, host: &str, more: &[&str]) -> String {
        let child = self.begin_openssl(server, host, more);
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        // It may have ended already.
        let _ = child.stdin.as_ref().unwrap().write_all(request.as_bytes());
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        String::from_utf8_lossy(&output.stdout).into_owned() + &errors
    }

    /// An `openssl s_client` that has been sent nothing yet.
    pub(crate) fn begin_openssl(&self, server: &Server, host: &str, more: &[&str]) -> Child {
        Command::new("openssl")
            .args(["s_client", "-ign_eof", "-servername", host, "-connect"])
            .arg(server.secure().to_string())
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("openssl is there")
    }
}
