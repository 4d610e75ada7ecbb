//! `flyball cert`: the certificates of a storage, and pairs from elsewhere.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use flyball::cli::Cert;
use flyball::running::found;
use flyball::settings::{SettingError, read, state_directory};
use flyball_acme::{About, Import, Kept, Name, import, kept};
use flyball_arch::Settings;
use flyball_http::date::format_date;
use flyball_server::control::ask;
use flyball_server::words::lasting;
use flyball_server::{FILE_BYTES_MAX, certificate_names};
use flyball_site::{CertificateSource, SiteSettings};
use flyball_sys::clock::unix_ms;
use flyball_sys::error_log::shown_in_line;
use flyball_sys::secret_file;
use serde_json::{Value, json};

/// Longest file of a key, in bytes: a chain may be in it too.
const KEY_BYTES_MAX: u64 = 1 << 20;

/// Stands in every line in PEM that begins a private key (RFC 7468).
const KEY: &[u8] = b"PRIVATE KEY-----";

/// Most names that are told where one is not there.
const NAMES_SHOWN: usize = 20;

pub(crate) fn run(asked: &Cert) -> ExitCode {
    let done = match asked {
        Cert::List { storage, name, json } => list(storage, name.as_deref(), *json),
        Cert::Show { storage, name } => show(storage, name),
        Cert::Tell { socket, verb, name } => match socket.clone().map_or_else(found, Ok) {
            Ok(socket) => tell(&socket, verb, name),
            Err(why) => return super::finish(Err(why)),
        },
        Cert::Import { storage, config, name, chain, key, replaces } => {
            bring(storage.as_deref(), config.as_deref(), name, (chain, key), *replaces)
        }
    };
    match done {
        Ok(text) => {
            super::print(&text);
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("flyball: {}", shown_in_line(&why));
            ExitCode::FAILURE
        }
    }
}

/// The certificates of a storage, or those for a name.
fn named(storage: &Path, name: Option<&str>) -> Result<Vec<Kept>, String> {
    let mut all = match kept(storage) {
        // It is made when the first is ordered.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        kept => kept.map_err(|error| format!("{}: {error}", storage.display()))?,
    };
    let Some(name) = name else { return Ok(all) };
    let known: Vec<String> = all.iter().flat_map(names_of).collect();
    let wanted = Name::parse(name)?;
    let is_name = |known: &String| known.eq_ignore_ascii_case(wanted.as_str());
    all.retain(|kept| names_of(kept).iter().any(is_name));
    match all.is_empty() {
        true => {
            Err(format!("no certificate in {} is for {name}; {}", storage.display(), of(known)))
        }
        false => Ok(all),
    }
}

/// All names of a certificate; that of the configuration, where it cannot be used or is not there.
fn names_of(kept: &Kept) -> Vec<String> {
    match &kept.about {
        Some(Ok(about)) => about.names.clone(),
        _ => vec![kept.name.clone()],
    }
}

/// Which names there are.
fn of(mut names: Vec<String>) -> String {
    names.sort();
    names.dedup();
    let more = names.len().saturating_sub(NAMES_SHOWN);
    names.truncate(NAMES_SHOWN);
    match (names.is_empty(), more) {
        (true, _) => "there is none at all".to_owned(),
        (_, 0) => format!("there are those for {}", names.join(", ")),
        _ => format!("there are those for {}, and {more} more names", names.join(", ")),
    }
}

fn show(storage: &Path, name: &str) -> Result<String, String> {
    let all = named(storage, Some(name))?;
    let texts = all.iter().map(|kept| match &kept.about {
        Some(Ok(about)) => format!(
            "{}    serial {}\n    since {}\n",
            as_text(kept),
            about.serial,
            date(about.not_before)
        ),
        _ => as_text(kept),
    });
    Ok(texts.collect())
}

/// Has a running server do something about a certificate.
fn tell(socket: &Path, verb: &str, name: &str) -> Result<String, String> {
    match ask(socket, "POST", &format!("/certificates?{verb}={name}"))? {
        (200, text) => Ok(text),
        (_, text) => Err(text.trim_end().to_owned()),
    }
}

fn list(storage: &Path, name: Option<&str>, json: bool) -> Result<String, String> {
    let all = named(storage, name)?;
    Ok(match json {
        true => format!("{:#}\n", Value::from(all.iter().map(as_json).collect::<Vec<_>>())),
        false if all.is_empty() => format!(
            "no certificate is in {}; --storage names another, as that of a server of another \
             user\n",
            storage.display()
        ),
        false => all.iter().map(as_text).collect(),
    })
}

fn as_text(kept: &Kept) -> String {
    let path = kept.path.display().to_string();
    let mut lines = match &kept.about {
        Some(Ok(about)) => lines_of(about),
        Some(Err(why)) => vec!["cannot be used".to_owned(), why.clone()],
        None => vec![kept.name.clone(), "is still to come".to_owned()],
    };
    lines.extend(kept.error.as_ref().map(|error| format!("what failed last: {error}")));
    let lines = lines.iter().filter(|line| !line.is_empty());
    let lines: String = lines.map(|line| format!("    {}\n", shown_in_line(line))).collect();
    format!("{}\n{lines}", shown_in_line(&path))
}

fn lines_of(about: &About) -> Vec<String> {
    let now = unix_ms() / 1_000;
    let left = match (about.not_after.checked_sub(now), about.not_before.checked_sub(now)) {
        (_, Some(ahead)) if ahead > 0 => format!("and begins in {}", lasting(ahead)),
        (Some(left), _) => format!("{} left", lasting(left)),
        (None, _) => "it has ended".to_string(),
    };
    let until = format!("until {}, {left}", date(about.not_after));
    let renewed = about.renews_at.map(|at| match about.is_imported {
        true => format!("imported; another is ordered in its place from {} on", date(at)),
        false => format!("renewed from {}, or when its authority advises", date(at)),
    });
    let lines = [about.names.join(" "), about.issuer.clone(), until];
    lines.into_iter().chain(renewed).collect()
}

/// A time in seconds since 1970, as HTTP writes it.
fn date(s: u64) -> String {
    String::from_utf8_lossy(&format_date(s)).into_owned()
}

fn as_json(kept: &Kept) -> Value {
    let mut value = json!({"path": kept.path.display().to_string(), "error": kept.error});
    match &kept.about {
        Some(Ok(about)) => {
            value["names"] = json!(about.names);
            value["issuer"] = json!(about.issuer);
            value["serial"] = json!(about.serial);
            value["not_before"] = json!(about.not_before);
            value["not_after"] = json!(about.not_after);
            value["renews_at"] = json!(about.renews_at);
            value["imported"] = json!(about.is_imported);
        }
        Some(Err(why)) => value["error"] = json!(kept.error.as_ref().unwrap_or(why)),
        None => value["names"] = json!([kept.name]),
    }
    value
}

/// Imports a pair, and says what uses it. Where the configuration is given, no file is made that no
/// site uses.
fn bring(
    storage: Option<&Path>,
    config: Option<&Path>,
    name: &str,
    (chain, key): (&Path, &Path),
    replaces: bool,
) -> Result<String, String> {
    let settings = config.map(settings_of).transpose()?;
    let site = settings.as_ref().map(|settings| site_of(settings, name)).transpose()?;
    let of_settings = settings.as_ref().map(|settings| settings.tls.acme.storage.clone());
    let storage = storage.map(Path::to_owned).or(of_settings);
    let storage = storage.unwrap_or_else(|| state_directory().join("acme"));
    let failed = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let secret = secret_file::read(key, KEY_BYTES_MAX).map_err(|error| failed(key, &error))?;
    // Another file in its place is told of below.
    let is_key = secret.bytes.windows(KEY.len()).any(|text| text == KEY);
    if is_key && secret.is_open_to_all() {
        let why = format!("is open to all users (mode {:04o}): chmod 600", secret.mode);
        return Err(failed(key, &why));
    }
    let secret = String::from_utf8(secret.bytes).map_err(|_| failed(key, &"holds no text"))?;
    let read = secret_file::read(chain, FILE_BYTES_MAX).map_err(|error| failed(chain, &error))?;
    let read = String::from_utf8(read.bytes).map_err(|_| failed(chain, &"holds no text"))?;
    let wanted = Import { name, chain: (chain, &read), key: (key, &secret), replaces };
    let imported = import(&storage, &wanted)?;
    let path = imported.path.display();
    let Some(site) = site else {
        return Ok(format!(
            "{path}\nThe site whose first host is {name} uses it, if its certificate comes by \
             ACME, within a minute. --config FILE looks whether there is one.\n"
        ));
    };
    let (named, others): (Vec<String>, Vec<String>) =
        certificate_names(site).into_iter().partition(|host| imported.covers(host));
    let named = named.join(", ");
    let mut said = format!("{path}\nThe site {name} uses it for {named}, within a minute.\n");
    if !others.is_empty() {
        let others = others.join(", ");
        said += &format!("It does not name {others}: a server that runs orders another then.\n");
    }
    Ok(said)
}

/// The settings of a configuration file.
fn settings_of(config: &Path) -> Result<Settings, String> {
    let told = |errors: Vec<SettingError>| {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let typed = read(config).map_err(told)?;
    super::settings(typed).map_err(|failure| failure.to_string().trim_end().replace('\n', "; "))
}

/// The site that uses the certificate of this name: its first host, and by ACME.
fn site_of<'a>(settings: &'a Settings, name: &str) -> Result<&'a SiteSettings, String> {
    let is_name = |host: &String| host.eq_ignore_ascii_case(name);
    let of_acme = |site: &&SiteSettings| site.tls.source == CertificateSource::Acme;
    let all = || settings.sites.iter().filter(of_acme);
    let is_first = |site: &&SiteSettings| certificate_names(site).first().is_some_and(is_name);
    if let Some(site) = all().find(is_first) {
        return Ok(site);
    }
    let why = format!("no site with a certificate by ACME has {name} as its first host");
    let among = all().map(certificate_names).find(|names| names.iter().any(is_name));
    Err(match among.as_ref().and_then(|names| names.first()) {
        Some(first) => format!("{why}: import it as {first}, the first host of its site"),
        None => why,
    })
}
