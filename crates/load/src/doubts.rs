//! Options that do not go together, and those that are hardly meant so.
//!
//! What would have no effect is refused. What has one that few ask for is told in the report, where
//! it explains the figures.

use std::time::Duration;

use crate::engine::BACKOFF_MAX;
use crate::options::{Asking, Load, Options};
use crate::schedule::Profile;

/// Refuses options that have no effect, or whose requests no server understands.
///
/// # Errors
/// Which ones, and what to do.
pub fn refuse(options: &Options) -> Result<(), String> {
    if options.duration.is_zero() {
        return Err("--duration 0s: nothing would begin".into());
    }
    let timeout = options.timeout;
    if timeout.is_zero() {
        return Err("--timeout 0s: no reply would be waited for".into());
    }
    for (name, time) in [
        ("--connect-timeout", options.connect_timeout),
        ("--first-byte-timeout", options.first_byte_timeout),
        ("--deadline", options.deadline),
    ] {
        if let Some(time) = time.filter(|time| *time > timeout) {
            return Err(format!(
                "{name} {time:?} has no effect: after the --timeout of {timeout:?} a request is \
                 given up"
            ));
        }
    }
    if options.retries.backoff > BACKOFF_MAX {
        return Err(format!("--backoff is at most {BACKOFF_MAX:?}: no wait is longer"));
    }
    if !options.body.is_empty() && named(options, "content-length") > 0 {
        return Err("Content-Length as a --header: that of --body is sent without it".into());
    }
    let method = options.method.as_str();
    if options.conditional > 0.0 && !matches!(method, "GET" | "HEAD") {
        return Err(format!(
            "--conditional has no effect with --method {method}: If-Modified-Since is of GET and \
             HEAD"
        ));
    }
    if options.verify_with.is_some() && method != "GET" {
        return Err(format!(
            "--verify-with has no effect with --method {method}: bodies of replies to GET are \
             compared"
        ));
    }
    Ok(())
}

/// What is hardly meant so.
pub(crate) fn told(options: &Options, path: &str) -> Vec<String> {
    let mut told = Vec::new();
    let method = options.method.as_str();
    if !options.body.is_empty() && matches!(method, "GET" | "HEAD") {
        told.push(format!("the --body is sent with {method}: --method POST is another"));
    }
    if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        let upper = method.to_ascii_uppercase();
        told.push(format!("the method is {method}, which is another one than {upper}"));
    }
    if named(options, "accept-encoding") > 1 {
        told.push("each request has Accept-Encoding more than once".into());
    }
    let is_kept = matches!(options.load, Load::Connections(_) | Load::Requests(..));
    if options.tls.resume > 0.0 && is_kept && options.requests_per_connection.is_none() {
        told.push(
            "connections are kept, and few begin that could resume a session (--tls-resume): \
             --requests-per-connection ends them"
                .into(),
        );
    }
    if let Load::Rate(profile) | Load::Sessions(profile) | Load::Requests(profile, _) =
        &options.load
    {
        told.extend(beyond(profile, options.duration));
    }
    let names_paths =
        matches!(options.asking, Asking::List(_) | Asking::SessionLog(_) | Asking::AccessLog(_));
    if names_paths && path != "/" && options.set.is_none() {
        told.push(format!(
            "the path of the URL, {path}, is not asked for: the file names the paths"
        ));
    }
    told
}

/// How many fields of this name each request has.
fn named(options: &Options, name: &str) -> usize {
    let is_named = |field: &&String| {
        field.split_once(':').is_some_and(|(found, _)| found.trim().eq_ignore_ascii_case(name))
    };
    options.fields.iter().filter(is_named).count()
}

/// That the run ends before its profile has changed for the last time.
fn beyond(profile: &Profile, duration: Duration) -> Option<String> {
    let changes_s = profile.changes_until_s();
    (changes_s > duration.as_secs_f64()).then(|| {
        let text = profile.text();
        format!("the run ends after {duration:?}, and {text} changes until {changes_s} s")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(change: impl FnOnce(&mut Options)) -> Options {
        let mut options = Options::new("http://h/", Load::Connections(1));
        change(&mut options);
        options
    }

    #[test]
    fn what_has_no_effect_is_refused() {
        let seconds = Duration::from_secs;
        for (options, why) in [
            (options(|o| o.duration = seconds(0)), "nothing would begin"),
            (options(|o| o.timeout = seconds(0)), "no reply would be waited for"),
            (options(|o| o.deadline = Some(seconds(20))), "--deadline 20s has no effect"),
            (options(|o| o.connect_timeout = Some(seconds(11))), "the --timeout of 10s"),
            (options(|o| o.retries.backoff = seconds(61)), "--backoff is at most 60s"),
            (
                options(|o| {
                    o.body = b"x".to_vec();
                    o.fields = vec!["Content-length: 1".into()];
                }),
                "that of --body is sent without it",
            ),
            (
                options(|o| {
                    o.method = "POST".into();
                    o.conditional = 0.5;
                }),
                "--conditional has no effect with --method POST",
            ),
            (
                options(|o| {
                    o.method = "HEAD".into();
                    o.verify_with = Some("/x".into());
                }),
                "--verify-with has no effect with --method HEAD",
            ),
        ] {
            assert!(refuse(&options).unwrap_err().contains(why), "{why}");
        }
        assert_eq!(refuse(&options(|o| o.deadline = Some(seconds(10)))), Ok(()));
    }

    #[test]
    fn what_is_hardly_meant_so_is_told() {
        let rate = |text: &str| Load::Rate(text.parse().unwrap());
        for (options, path, why) in [
            (options(|o| o.body = b"x".to_vec()), "/", "sent with GET: --method POST"),
            (options(|o| o.method = "post".into()), "/", "another one than POST"),
            (
                options(|o| {
                    o.fields = vec!["Accept-Encoding: a".into(), "accept-encoding: b".into()]
                }),
                "/",
                "more than once",
            ),
            (options(|o| o.tls.resume = 1.0), "/", "few begin that could resume"),
            (options(|o| o.load = rate("ramp:1..2/20s")), "/", "ends after 10s, and ramp:1..2/20s"),
            (options(|o| o.load = rate("spike:1,9@12s+1s")), "/", "changes until 13 s"),
            (options(|o| o.asking = Asking::List("/l".into())), "/x", "the URL, /x, is not asked"),
        ] {
            let told = told(&options, path);
            assert!(told.len() == 1 && told[0].contains(why), "{why}: {told:?}");
        }
        assert_eq!(told(&options(|o| o.load = rate("ramp:1..2/10s")), "/x"), [""; 0]);
    }
}
