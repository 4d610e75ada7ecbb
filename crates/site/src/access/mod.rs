//! Who may see what of a site: by the network that one comes from, and by name and password.
//!
//! Every request is checked, before the caches are asked for its answer. The check never waits:
//! verifying a password, which takes tens of milliseconds, comes out as work for whoever does the
//! work that waits on the disk.

mod admission;
mod apr1;
mod counts;
mod credentials;
mod password;
mod patterns;
mod remembered;
mod settings;
mod tries;
mod users;

pub use admission::Admission;
pub use counts::AccessCounts;
pub use password::{HashError, PasswordHash};
pub use settings::{AccessRule, AccessSettings, AuthSettings};
pub(crate) use tries::Tries;
pub use users::{Users, UsersError};

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use flyball_http::{Fields, Name, Remote, Request, Status};
use flyball_sys::clients::Client;
use flyball_sys::disk::Compute;

use crate::routes::{self, Fault, Pattern, Prefix, readings};
use patterns::Patterns;
use remembered::{Proof, ProofKey, Remembered};
use tries::Try;

/// The name that a request gives with its password, whether that is right or not, read into
/// `decoded`.
pub fn claimed_name<'a>(request: &Request<'_>, decoded: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    credentials::read(request, decoded).map(|login| login.user)
}

/// Passwords that are verified at the same time, per worker and site: as many connections as a
/// browser opens, and fewer than there are threads, so that the disk's work goes on.
pub const VERIFICATIONS_MAX: usize = 6;

/// When somebody may try again who met too many others, in seconds.
const BUSY_S: u64 = 1;

/// Who may see what of one site.
#[derive(Debug)]
pub(crate) struct Access {
    /// By path, the longest first.
    rules: Vec<(Prefix, Admission)>,
    patterns: Patterns,
    logins: Option<Logins>,
}

/// Who may log in, and where one has to.
#[derive(Debug)]
struct Logins {
    paths: Vec<Prefix>,
    users: Arc<Users>,
    challenge: String,
    key: ProofKey,
    remembered: Mutex<Remembered>,
    /// In a minute.
    failures_max: u64,
    tries: Arc<Tries>,
    running: Arc<AtomicUsize>,
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Check {
    /// It is answered.
    Pass,
    /// It is refused.
    Refuse(Refused),
    /// The password has to be verified first; then [`Access::verified`].
    Verify(Arc<Verification>),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Nobody may come from there.
    Network,
    /// It has no right name and password.
    Login,
    /// Too many logins failed; seconds until another may be tried.
    Throttled(u64),
    /// Too many logins are being verified; seconds until another may be tried.
    Busy(u64),
}

impl Refused {
    pub(crate) fn status(self) -> Status {
        match self {
            Refused::Network => Status::FORBIDDEN,
            Refused::Login => Status::UNAUTHORIZED,
            Refused::Throttled(_) => Status::TOO_MANY_REQUESTS,
            Refused::Busy(_) => Status::SERVICE_UNAVAILABLE,
        }
    }
}

/// What is wrong with rules whose values are right each by itself.
pub fn faults(settings: &AccessSettings) -> Vec<Fault> {
    let wrong = |(at, rule): (usize, &AccessRule)| {
        let paths = (rule.path.as_deref(), rule.pattern.as_deref());
        Fault::of_paths("access", at, paths)
    };
    settings.rules.iter().enumerate().filter_map(wrong).collect()
}

impl Access {
    /// Whether anything of the site asks for a password.
    pub(crate) fn asks_for_passwords(&self) -> bool {
        self.logins.is_some()
    }

    /// What the settings say, by these users; `None` when everybody may see everything. What was
    /// tried at other sites by the same users counts here too: `tries` has all that is known, and
    /// what is new is added. To be called before the first fork: failures are counted for all
    /// processes together.
    ///
    /// # Errors
    /// When memory is out.
    pub(crate) fn new(
        settings: &AccessSettings,
        users: Option<Arc<Users>>,
        tries: &mut Vec<Arc<Tries>>,
    ) -> io::Result<Option<Access>> {
        let (mut rules, mut patterns) = (Vec::new(), Vec::new());
        for rule in &settings.rules {
            let admission = rule.admission.clone();
            if let Some(path) = &rule.path {
                rules.push((Prefix::of(path), admission));
            } else if let Some(text) = &rule.pattern {
                let wrong = |why| io::Error::other(format!("site.access.match: {why}"));
                patterns.push((Pattern::parse(text).map_err(wrong)?, admission));
            }
        }
        rules.push((Prefix::of("/"), settings.admission.clone()));
        // Stable: of two rules with one path, the first holds.
        rules.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let patterns = Patterns::new(patterns);
        let logins = users.map(|users| Logins::new(&settings.auth, users, tries)).transpose()?;
        let open = rules.iter().all(|(_, admission)| admission.is_open()) && patterns.is_empty();
        Ok((!open || logins.is_some()).then_some(Access { rules, patterns, logins }))
    }

    /// Those who may log in.
    pub(crate) fn users(&self) -> Option<Arc<Users>> {
        self.logins.as_ref().map(|logins| Arc::clone(&logins.users))
    }

    /// What was tried here.
    pub(crate) fn tries(&self) -> Option<Arc<Tries>> {
        self.logins.as_ref().map(|logins| Arc::clone(&logins.tries))
    }

    /// Whether a request is answered. Never blocks.
    pub(crate) fn check(&self, request: &Request<'_>, scratch: &mut Scratch, now_ms: u64) -> Check {
        let Scratch { relative, url, decoded } = scratch;
        let (path, mapped) = routes::relative_of(request.path(), relative);
        let client = request.client();
        let admits = |path: &[u8]| self.rule_of(path).is_none_or(|(_, rule)| rule.admits(client));
        if !readings(path).all(|path| admits(&path))
            || !self.patterns.is_empty()
                && !self.patterns.admit(routes::url_of(path, mapped, url), client)
        {
            return Check::Refuse(Refused::Network);
        }
        match &self.logins {
            Some(logins) if logins.cover(path) => logins.check(request, decoded, now_ms),
            _ => Check::Pass,
        }
    }

    /// Whether not everybody may see the answer to this request, so that no cache that others use
    /// may keep it.
    pub(crate) fn restricts(&self, request: &Request<'_>, scratch: &mut Scratch) -> bool {
        let (path, mapped) = routes::relative_of(request.path(), &mut scratch.relative);
        self.closes_path(path)
            || !self.patterns.is_empty()
                && self.patterns.restrict(routes::url_of(path, mapped, &mut scratch.url))
    }

    /// The same of a URL.
    pub(crate) fn closes(&self, url: &[u8]) -> bool {
        self.closes_path(routes::relative_of_url(url)) || self.patterns.restrict(url)
    }

    /// Whether a login, or a rule by path, closes a path to some clients.
    fn closes_path(&self, path: &[u8]) -> bool {
        let closed = |path: &[u8]| self.rule_of(path).is_some_and(|(_, rule)| !rule.is_open());
        readings(path).any(|path| closed(&path))
            || self.logins.as_ref().is_some_and(|logins| logins.cover(path))
    }

    /// The rule of a path with its number.
    fn rule_of(&self, path: &[u8]) -> Option<(usize, &Admission)> {
        let at = self.rules.iter().position(|(prefix, _)| prefix.covers(path))?;
        self.rules.get(at).map(|(_, admission)| (at, admission))
    }

    /// Whether one has to log in for the path of this request.
    pub(crate) fn asks_login(&self, request: &Request<'_>, scratch: &mut Scratch) -> bool {
        let (path, _) = routes::relative_of(request.path(), &mut scratch.relative);
        self.logins.as_ref().is_some_and(|logins| logins.cover(path))
    }

    /// Whether the patterns let a client come to a URL.
    pub(crate) fn patterns_admit(&self, url: &[u8], client: Remote) -> bool {
        self.patterns.admit(url, client)
    }

    /// Who has logged in, once a request was let pass; `None` where one need not.
    pub(crate) fn user(&self, request: &Request<'_>) -> Option<Vec<u8>> {
        let logins = self.logins.as_ref()?;
        let Scratch { mut relative, mut decoded, .. } = Scratch::default();
        let asks = logins.cover(routes::relative_of(request.path(), &mut relative).0);
        let login = asks.then(|| credentials::read(request, &mut decoded))??;
        Some(login.user.to_vec())
    }

    /// Whether a request would get what has this URL, although it would not, or not so, by asking
    /// for that URL: a rewrite, a fallback or `.html` behind a name must open no way around a rule.
    pub(crate) fn is_got_around(
        &self,
        request: &Request<'_>,
        url: &[u8],
        scratch: &mut Scratch,
    ) -> bool {
        let (asked, _) = routes::relative_of(request.path(), &mut scratch.relative);
        let name = routes::relative_of_url(url);
        let passed = |number: usize| {
            readings(asked).any(|path| self.rule_of(&path).is_some_and(|(at, _)| at == number))
        };
        let by_rule = readings(name).any(|name| {
            self.rule_of(&name).is_some_and(|(at, rule)| !rule.is_open() && !passed(at))
        });
        let logins = |path: &[u8]| self.logins.as_ref().is_some_and(|logins| logins.cover(path));
        by_rule || (logins(name) && !logins(asked)) || self.closes_beside(request, url, scratch)
    }

    /// Whether a pattern closes a URL and does not fit the path of the request.
    pub(crate) fn closes_beside(
        &self,
        request: &Request<'_>,
        url: &[u8],
        scratch: &mut Scratch,
    ) -> bool {
        if self.patterns.is_empty() {
            return false;
        }
        let (asked, mapped) = routes::relative_of(request.path(), &mut scratch.relative);
        self.patterns.close_beside(routes::url_of(asked, mapped, &mut scratch.url), url)
    }

    /// A password was verified: whether the request is answered.
    pub(crate) fn verified(&self, verification: &Verification, now_ms: u64) -> Result<(), Refused> {
        let Some(logins) = &self.logins else { return Err(Refused::Login) };
        if !verification.verified.get().is_some_and(|verified| *verified) {
            return Err(Refused::Login);
        }
        logins.tries.succeeded(verification.tried, now_ms);
        logins.remembered().add(&verification.proof, now_ms);
        Ok(())
    }

    /// The fields of a refusal beside those of its page.
    pub(crate) fn add_fields(&self, refused: Refused, fields: &mut Fields) {
        match refused {
            Refused::Network => {}
            Refused::Login => {
                if let Some(logins) = &self.logins {
                    fields.add(Name::WwwAuthenticate, &logins.challenge);
                }
            }
            Refused::Throttled(seconds) | Refused::Busy(seconds) => {
                fields.add_shown(Name::RetryAfter, seconds);
            }
        }
    }
}

impl Logins {
    fn new(
        settings: &AuthSettings,
        users: Arc<Users>,
        tries: &mut Vec<Arc<Tries>>,
    ) -> io::Result<Logins> {
        Ok(Logins {
            paths: settings.paths.iter().map(|path| Prefix::of(path)).collect(),
            users,
            challenge: format!("Basic realm=\"{}\", charset=\"UTF-8\"", settings.realm),
            key: ProofKey::random()?,
            remembered: Mutex::new(Remembered::new(settings.remember_ms)),
            failures_max: settings.failures_per_minute,
            tries: Tries::of(settings, tries)?,
            running: Arc::new(AtomicUsize::new(0)),
        })
    }

    fn cover(&self, path: &[u8]) -> bool {
        readings(path).any(|path| self.paths.iter().any(|prefix| prefix.covers(&path)))
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A login that was verified lately from the same client passes. Another is verified, if
    /// neither its client nor its user has failed too often.
    fn check(&self, request: &Request<'_>, decoded: &mut Vec<u8>, now_ms: u64) -> Check {
        let Some(login) = credentials::read(request, decoded) else {
            return Check::Refuse(Refused::Login);
        };
        let client = Client::of(request.client().ip());
        let proof = self.key.proof(client, login.user, login.password);
        if self.remembered().knows(&proof, now_ms) {
            return Check::Pass;
        }
        let Some(permit) = Permit::take(&self.running) else {
            return Check::Refuse(Refused::Busy(BUSY_S));
        };
        let tried = self.tries.begin(client, login.user, self.failures_max, now_ms);
        let tried = match tried {
            Ok(tried) => tried,
            Err(wait_ms) => return Check::Refuse(Refused::Throttled(wait_ms.div_ceil(1_000))),
        };
        Check::Verify(Arc::new(Verification {
            users: Arc::clone(&self.users),
            user: login.user.into(),
            password: login.password.into(),
            proof,
            tried,
            verified: OnceLock::new(),
            _permit: permit,
        }))
    }
}

/// The verification of one password: work for the processor.
pub(crate) struct Verification {
    users: Arc<Users>,
    user: Box<[u8]>,
    password: Box<[u8]>,
    proof: Proof,
    tried: Try,
    verified: OnceLock<bool>,
    _permit: Permit,
}

impl std::fmt::Debug for Verification {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verification")
    }
}

impl Compute for Verification {
    /// Who is no user costs what a user costs.
    fn compute(&self) {
        let (hash, known) = self.users.find(&self.user);
        let verified = hash.verify(&self.password) & known;
        // Done again, it comes to the same.
        let _ = self.verified.set(verified);
    }
}

/// The right to verify a password, given back when it is dropped.
#[derive(Debug)]
struct Permit(Arc<AtomicUsize>);

impl Permit {
    fn take(running: &Arc<AtomicUsize>) -> Option<Permit> {
        let permit = Permit(Arc::clone(running));
        (running.fetch_add(1, Relaxed) < VERIFICATIONS_MAX).then_some(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Buffers that are used again and again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    relative: Vec<u8>,
    url: Vec<u8>,
    decoded: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::password::tests::quick_hash;
    use super::*;
    use flyball_http::scan::parse_head;
    use flyball_http::{Head, Limits};
    use flyball_sys::disk::Op;
    use std::io::Write;

    const NOW_MS: u64 = 1_000_000;

    /// `ann:secret`, `ann:wrong`, `nobody:secret`.
    const ANN: &str = "YW5uOnNlY3JldA==";
    const WRONG: &str = "YW5uOndyb25n";
    const NOBODY: &str = "bm9ib2R5OnNlY3JldA==";

    fn with_request<T>(
        path: &str,
        login: Option<&str>,
        from: &str,
        see: impl FnOnce(&Request<'_>) -> T,
    ) -> T {
        let login = login.map(|login| format!("Authorization: Basic {login}\r\n"));
        let login = login.unwrap_or_default();
        let text = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{login}\r\n");
        let mut head = Head::default();
        parse_head(text.as_bytes(), &Limits::default(), &mut head).unwrap();
        head.client = Remote::Ip(from.parse().unwrap()).to_canonical();
        see(&head.request(text.as_bytes()))
    }

    fn check_at(access: &Access, path: &str, login: Option<&str>, from: &str, now: u64) -> Check {
        let mut scratch = Scratch::default();
        with_request(path, login, from, |request| access.check(request, &mut scratch, now))
    }

    fn check(access: &Access, path: &str, login: Option<&str>) -> Check {
        check_at(access, path, login, "192.0.2.1", NOW_MS)
    }

    /// Whether it passes, with its password verified where that is needed.
    fn passes(access: &Access, path: &str, login: Option<&str>, from: &str) -> Result<(), Refused> {
        match check_at(access, path, login, from, NOW_MS) {
            Check::Pass => Ok(()),
            Check::Refuse(refused) => Err(refused),
            Check::Verify(verification) => {
                Op::Compute { work: verification.clone() }.perform();
                access.verified(&verification, NOW_MS)
            }
        }
    }

    fn users() -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "ann:{}\nbob:{}", quick_hash("secret"), quick_hash("other")).unwrap();
        file
    }

    fn access(settings: &AccessSettings) -> Option<Access> {
        among(settings, &mut Vec::new())
    }

    fn among(settings: &AccessSettings, tries: &mut Vec<Arc<Tries>>) -> Option<Access> {
        Access::new(settings, Users::of(&settings.auth).unwrap(), tries).unwrap()
    }

    fn with_auth(change: impl FnOnce(&mut AuthSettings)) -> Access {
        let file = users();
        let mut settings = AccessSettings::default();
        settings.auth.file = Some(file.path().into());
        change(&mut settings.auth);
        access(&settings).unwrap()
    }

    #[test]
    fn a_site_without_rules_has_no_check() {
        assert!(access(&AccessSettings::default()).is_none());
    }

    #[test]
    fn a_login_is_verified_once_and_then_known() {
        let access = with_auth(|_| ());
        assert_eq!(passes(&access, "/", None, "::1"), Err(Refused::Login));
        assert_eq!(passes(&access, "/", Some(WRONG), "::1"), Err(Refused::Login));
        assert_eq!(passes(&access, "/", Some(NOBODY), "::1"), Err(Refused::Login));
        assert!(matches!(check(&access, "/", Some(ANN)), Check::Verify(_)));
        assert_eq!(passes(&access, "/", Some(ANN), "::1"), Ok(()));
        assert!(matches!(check_at(&access, "/", Some(ANN), "::1", NOW_MS), Check::Pass));
        assert!(matches!(check(&access, "/", Some(ANN)), Check::Verify(_)), "from elsewhere");
        assert!(matches!(check(&access, "/", Some(WRONG)), Check::Verify(_)));
        let later = NOW_MS + AuthSettings::default().remember_ms;
        assert!(matches!(check_at(&access, "/", Some(ANN), "::1", later), Check::Verify(_)));
    }

    #[test]
    fn a_stranger_costs_one_verification_of_a_hash_like_a_user() {
        let access = with_auth(|_| ());
        for login in [ANN, WRONG, NOBODY] {
            let Check::Verify(verification) = check(&access, "/", Some(login)) else { panic!() };
            let (hash, known) = verification.users.find(&verification.user);
            assert_eq!(known, login != NOBODY);
            // What is verified is a real hash, and with its password it would be right.
            assert!(hash.verify(b"secret") || hash.verify(b"other"));
            verification.compute();
            assert_eq!(verification.verified.get(), Some(&(login == ANN)));
        }
    }

    #[test]
    fn failures_are_limited_for_each_client_and_for_each_user() {
        let access = with_auth(|auth| auth.failures_per_minute = 3);
        for _ in 0..9 {
            assert_eq!(passes(&access, "/", Some(ANN), "2001:db8::1"), Ok(()));
        }
        for _ in 0..3 {
            assert_eq!(passes(&access, "/", Some(NOBODY), "2001:db8::2"), Err(Refused::Login));
        }
        let other = Some("Ym9iOm90aGVy");
        // The same client with another user, the same user from elsewhere, both others.
        let throttled = Err(Refused::Throttled(20));
        assert_eq!(passes(&access, "/", other, "2001:db8::3"), throttled);
        assert_eq!(passes(&access, "/", Some(NOBODY), "192.0.2.9"), throttled);
        assert_eq!(passes(&access, "/", other, "192.0.2.9"), Ok(()));
        // Who is known already is not concerned, and a stranger that guesses right is not known.
        assert_eq!(passes(&access, "/", Some(ANN), "2001:db8::1"), Ok(()));
        for _ in 0..3 {
            assert_eq!(passes(&access, "/", Some(WRONG), "203.0.113.5"), Err(Refused::Login));
        }
        assert_eq!(passes(&access, "/", Some(ANN), "203.0.113.5"), throttled);
        let later = NOW_MS + 20_000;
        let verifies = check_at(&access, "/", Some(NOBODY), "192.0.2.9", later);
        assert!(matches!(verifies, Check::Verify(_)), "{verifies:?}");
    }

    #[test]
    fn strangers_who_fail_do_not_lock_a_user_out_of_where_it_logs_in() {
        let access = with_auth(|auth| {
            auth.failures_per_minute = 3;
            auth.remember_ms = 0;
        });
        let (home, login, wrong) = ("198.51.100.7", Some(ANN), Some(WRONG));
        assert_eq!(passes(&access, "/", login, home), Ok(()));
        for n in 0..3 {
            let from = format!("192.0.2.{n}");
            assert_eq!(passes(&access, "/", wrong, &from), Err(Refused::Login), "{from}");
        }
        // Neither a stranger nor the user from a new place may try now.
        let throttled = Err(Refused::Throttled(20));
        assert_eq!(passes(&access, "/", wrong, "192.0.2.9"), throttled);
        assert_eq!(passes(&access, "/", login, "192.0.2.9"), throttled);
        for _ in 0..9 {
            assert_eq!(passes(&access, "/", login, home), Ok(()));
        }
        assert_eq!(passes(&access, "/", wrong, "192.0.2.9"), throttled, "nothing was given back");
        // Who is known there fails as often as any, and is known as no other user.
        assert_eq!(passes(&access, "/", Some(NOBODY), home), Err(Refused::Login));
        for _ in 0..2 {
            assert_eq!(passes(&access, "/", wrong, home), Err(Refused::Login));
        }
        assert_eq!(passes(&access, "/", login, home), throttled);
    }

    #[test]
    fn what_was_tried_counts_for_all_sites_of_the_same_users_and_for_later_ones() {
        let (file, other) = (users(), users());
        let mut tries = Vec::new();
        let mut site = |file: &tempfile::NamedTempFile, most| {
            let mut settings = AccessSettings::default();
            settings.auth.file = Some(file.path().into());
            settings.auth.failures_per_minute = most;
            among(&settings, &mut tries).unwrap()
        };
        let (few, many) = (site(&file, 3), site(&file, 6));
        let wrong = |access: &Access, from| passes(access, "/", Some(WRONG), from);
        let (failed, here) = (Err(Refused::Login), "192.0.2.1");
        // Each takes its part of a minute: one of three is two of six.
        for site in [&few, &many, &many] {
            assert_eq!(wrong(site, here), failed);
        }
        assert_eq!(wrong(&site(&file, 3), here), failed, "a later site");
        assert_eq!(wrong(&few, here), Err(Refused::Throttled(20)));
        assert_eq!(wrong(&many, here), Err(Refused::Throttled(10)));
        // The right password does not help, and the user is the same at all of them.
        for (site, from) in [(&many, here), (&many, "192.0.2.2")] {
            let right = passes(site, "/", Some(ANN), from);
            assert!(matches!(right, Err(Refused::Throttled(_))), "{right:?}");
        }
        assert_eq!(wrong(&site(&other, 3), here), failed, "other users");
        assert_eq!(tries.len(), 2);
    }

    #[test]
    fn a_site_allows_as_many_failures_as_it_says() {
        for most in [1, 2, 7, 20, 999, 1_000] {
            let access = with_auth(|auth| auth.failures_per_minute = most);
            let wrong = || passes(&access, "/", Some(WRONG), "192.0.2.1");
            let failures = (0..=most).take_while(|_| wrong() == Err(Refused::Login)).count();
            assert_eq!(failures as u64, most);
        }
    }

    #[test]
    fn only_so_many_passwords_are_verified_at_a_time() {
        let access = with_auth(|auth| auth.failures_per_minute = 1_000);
        let mut running: Vec<Check> =
            (0..VERIFICATIONS_MAX).map(|_| check(&access, "/", Some(WRONG))).collect();
        assert!(running.iter().all(|check| matches!(check, Check::Verify(_))));
        let busy = check(&access, "/", Some(WRONG));
        assert!(matches!(busy, Check::Refuse(Refused::Busy(BUSY_S))), "{busy:?}");
        running.pop();
        assert!(matches!(check(&access, "/", Some(WRONG)), Check::Verify(_)));
    }

    #[test]
    fn no_spelling_of_a_path_gets_around_a_rule() {
        let access = with_auth(|auth| auth.paths = vec!["/in/ner/".into(), "/%70riv".into()]);
        for path in [
            "/in/ner",
            "/in/ner/",
            "/in/ner/x",
            "//in//ner",
            "/in/%6eer/x",
            "/a/../in/ner/x",
            "/in/./ner",
            "/priv/a",
            "/x/..//priv",
            "/in/x/%2e%2e/ner/",
            "/in/ner/.hidden",
            "/priv?a=/",
            "http://a/priv",
        ] {
            let refused = check(&access, path, None);
            assert!(matches!(refused, Check::Refuse(Refused::Login)), "{path}: {refused:?}");
        }
        for path in
            ["/", "/in", "/in/", "/in/nerd", "/private", "/inner", "/in/ner/../a", "/IN/NER"]
        {
            assert!(matches!(check(&access, path, None), Check::Pass), "{path}");
        }
        // It names nothing, and is refused by what comes after; where all is protected, here.
        assert!(matches!(check(&access, "/../in/ner", None), Check::Pass));
        let all = with_auth(|_| ());
        assert!(matches!(check(&all, "/../in/ner", None), Check::Refuse(Refused::Login)));
    }

    #[test]
    fn no_other_path_gets_around_a_rule() {
        let access = with_auth(|auth| auth.paths = vec!["/in".into()]);
        let around = |path: &str, url: &str| {
            let mut scratch = Scratch::default();
            with_request(path, None, "192.0.2.1", |request| {
                access.is_got_around(request, url.as_bytes(), &mut scratch)
            })
        };
        assert!(around("/out", "/in/page") && around("/out", "/in") && around("/out", "/in/"));
        assert!(!around("/in/page", "/in/page") && !around("/in/", "/in/index.html"));
        assert!(!around("/out", "/out.html") && !around("/in/x", "/index.html"));
    }

    #[test]
    fn the_rule_of_the_longest_path_holds_and_comes_before_the_login() {
        let (file, mut settings) = (users(), AccessSettings::default());
        let only =
            |network: &str| Admission { allow: vec![network.parse().unwrap()], deny: Vec::new() };
        settings.auth.file = Some(file.path().into());
        settings.auth.paths = vec!["/a".into()];
        settings.admission = only("10.0.0.0/8");
        settings.rules = vec![
            AccessRule { path: Some("/a/b".into()), admission: only("::1"), pattern: None },
            AccessRule { path: Some("/a/b/open".into()), ..AccessRule::default() },
        ];
        let access = access(&settings).unwrap();
        let from = |path: &str, from: &str| passes(&access, path, None, from);
        assert_eq!(from("/", "10.1.1.1"), Ok(()));
        assert_eq!(from("/", "::ffff:10.1.1.1"), Ok(()));
        assert_eq!(from("/", "::1"), Err(Refused::Network));
        assert_eq!(from("/a", "::1"), Err(Refused::Network));
        assert_eq!(from("/a", "10.1.1.1"), Err(Refused::Login));
        assert_eq!(from("/a/b/c", "10.1.1.1"), Err(Refused::Network));
        assert_eq!(from("/a/b/c", "::1"), Err(Refused::Login));
        assert_eq!(from("/a/b/open/c", "192.0.2.1"), Err(Refused::Login));
        assert_eq!(passes(&access, "/a/b/open/c", Some(ANN), "192.0.2.1"), Ok(()));
        let restricts = |path: &str| {
            let mut scratch = Scratch::default();
            with_request(path, None, "::1", |request| access.restricts(request, &mut scratch))
        };
        assert!(restricts("/") && restricts("/a/b/open"));
    }

    #[test]
    fn every_pattern_that_fits_is_asked_beside_the_rule_of_the_path() {
        let fits = |pattern: &str, network: &str| AccessRule {
            pattern: Some(pattern.into()),
            admission: Admission { allow: vec![network.parse().unwrap()], deny: Vec::new() },
            path: None,
        };
        let rules = vec![
            AccessRule { path: Some("/open".into()), ..AccessRule::default() },
            fits(r"~\.php$", "10.0.0.0/8"),
            fits("/up/*", "10.1.0.0/16"),
        ];
        let settings = AccessSettings { rules, ..AccessSettings::default() };
        let access = access(&settings).unwrap();
        let from = |path: &str, from: &str| passes(&access, path, None, from).is_ok();
        for (path, network) in [
            ("/a.php", "10.0.0.0"),
            ("/open/%61.p%68p", "10.0.0.0"),
            ("/up/a", "10.1.0.0"),
            ("/up/", "10.1.0.0"),
            ("/x/..//up/a.php", "10.1.0.0"),
            ("/", ""),
            ("/open/a", ""),
            ("/a.php/b", ""),
            ("/up", ""),
        ] {
            assert_eq!(from(path, "192.0.2.1"), network.is_empty(), "{path}");
            assert_eq!(from(path, "10.9.0.1"), network != "10.1.0.0", "{path}");
            assert!(from(path, "10.1.0.1"), "{path}");
            let mut scratch = Scratch::default();
            with_request(path, None, "10.1.0.1", |request| {
                assert_eq!(access.restricts(request, &mut scratch), !network.is_empty(), "{path}");
                // For all clients: what a path leads to is cached for all of them.
                for (url, closed) in [("/b.php", "10.0.0.0"), ("/up/b", "10.1.0.0")] {
                    let around = access.is_got_around(request, url.as_bytes(), &mut scratch);
                    let both = path.ends_with("up/a.php");
                    assert_eq!(around, network != closed && !both, "{path} {url}");
                }
            });
        }
    }

    #[test]
    fn a_rule_holds_for_both_readings_of_an_encoded_slash() {
        let (file, mut settings) = (users(), AccessSettings::default());
        let only =
            |network: &str| Admission { allow: vec![network.parse().unwrap()], deny: Vec::new() };
        settings.auth.file = Some(file.path().into());
        settings.auth.paths = vec!["/private".into()];
        settings.admission = only("10.0.0.0/8");
        settings.rules = vec![
            AccessRule { path: Some("/closed".into()), admission: only("::1"), pattern: None },
            AccessRule { pattern: Some("/fits/*".into()), admission: only("::1"), path: None },
            AccessRule { path: Some("/open".into()), ..AccessRule::default() },
        ];
        let access = access(&settings).unwrap();
        let from = |path: &str, from: &str| passes(&access, path, None, from);
        for path in ["/private%2Fx", "/%2fprivate", "/%2Fprivate%2f%2fx/y", "/private%2F"] {
            assert_eq!(from(path, "10.0.0.1"), Err(Refused::Login), "{path}");
        }
        assert_eq!(from("/closed%2Fx", "10.0.0.1"), Err(Refused::Network));
        assert_eq!(from("/closed%2Fx", "::1"), Err(Refused::Network));
        assert_eq!(from("/open%2Fx", "192.0.2.1"), Err(Refused::Network));
        for path in ["/fits/x", "/fits%2Fx", "/%2Ffits%2f%2Fx", "/fits%2F"] {
            assert_eq!(from(path, "10.0.0.1"), Err(Refused::Network), "{path}");
        }
        assert_eq!(from("/open%2Fx", "10.0.0.1"), Ok(()));
        assert_eq!(from("/open/a%2Fb", "192.0.2.1"), Ok(()));
        let around = |path: &str, url: &[u8]| {
            let mut scratch = Scratch::default();
            with_request(path, None, "::1", |request| {
                access.is_got_around(request, url, &mut scratch)
            })
        };
        for url in [&b"/closed\0x"[..], b"/private\0x", b"/fits\0x"] {
            assert!(around("/open/x", url), "{}", url.escape_ascii());
        }
        for (path, url) in [
            ("/closed%2Fx", &b"/closed\0x"[..]),
            ("/private%2Fx", b"/private\0x"),
            ("/fits%2Fx", b"/fits\0x"),
        ] {
            assert!(!around(path, url), "{path}");
        }
    }

    #[test]
    fn a_refusal_says_what_the_client_can_do() {
        let access = with_auth(|auth| auth.realm = "the cellar".into());
        let fields = |refused: Refused| {
            let mut fields = Fields::default();
            access.add_fields(refused, &mut fields);
            let text = fields.lines().h1().to_vec();
            (refused.status().code(), String::from_utf8(text).unwrap())
        };
        let challenge = "WWW-Authenticate: Basic realm=\"the cellar\", charset=\"UTF-8\"\r\n";
        assert_eq!(fields(Refused::Login), (401, challenge.into()));
        assert_eq!(fields(Refused::Network), (403, String::new()));
        assert_eq!(fields(Refused::Throttled(9)), (429, "Retry-After: 9\r\n".into()));
        assert_eq!(fields(Refused::Busy(1)), (503, "Retry-After: 1\r\n".into()));
    }
}
