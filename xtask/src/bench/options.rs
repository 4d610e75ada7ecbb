//! The command line of `bench`.

use std::path::PathBuf;

use super::contestant::Contestant;
use super::disk;
use super::failure::Failure;
use super::fastcgi;
use super::instructions;
use super::load;
use super::memory;
use super::rivals;
use super::site;
use super::tls;
use super::work::{self, Work};

/// Help for the command line.
pub(crate) const USAGE: &str = "\
cargo xtask bench quick|arch|disk|memory|instructions|site|fastcgi|load|tls [OPTION]...

quick compares Flyball with nginx and lighttpd, arch its architectures with each other and with a
server that does nothing: the server's CPU time for a request, interleaved. disk compares the
throughput of its architectures when files do not fit into memory; it needs root. memory says what a
connection and a unit of concurrency of each architecture cost; instructions how many of its own the
server takes for a request, by callgrind; site what rules, the access log and compressed bodies add
to a cached request; fastcgi what a request costs that php-fpm answers, beside
nginx with the same php-fpm, and how many a module, a responder and a CGI program answer. load
compares the CPU time of `flyball load` for a new connection with httperf's, and for a request on a
kept one with wrk's. tls compares what TLS costs the server with nginx, lighttpd, h2o, HAProxy and
Caddy: a request, a handshake, a resumed session, 10 MiB, memory of an idle connection, calls, and
waiting beside a flood of handshakes; `flyball load` asks. lighttpd needs lighttpd-mod-openssl.

  --rounds N       timed runs of each contestant in each work (5)
  --seconds S      length of each (5)
  --work NAME      only this work: new, keep, pipe, mix, large; with arch: crowd, keep-crowd,
                   keep, mix, active; may be repeated
  --server NAME    only this server: flyball, nginx, nginx-deferred, lighttpd, null; with tls one
                   of flyball, nginx, lighttpd, h2o, haproxy, caddy; may be repeated
  --arch NAME      architecture of Flyball (sped and n-copy; with arch all that have a target); may
                   be repeated
  --set KEY=VALUE  a setting for Flyball; may be repeated
  --flyball PATH   Flyball's binary, instead of a release build of this workspace
  --beside PATH    with quick, arch and instructions: the binary of another build of Flyball, as
                   one more contestant for each architecture; the calls of a request are counted
                   of both, or the instructions
  --json FILE      record of every run

nginx-deferred takes part in `new` only. The exit status is 0 when every target that was measured
is met, 1 when one is missed or something failed, 2 when nothing could be run.";

/// Rounds unless told otherwise: the fewest that a median should be taken of.
const ROUNDS: u32 = 5;
/// Seconds unless told otherwise.
const SECONDS: u32 = 5;
/// Flyball's architectures unless told otherwise: the targets hold for the better of the two.
const ARCHS: [&str; 2] = ["sped", "n-copy"];

/// Whom to compare Flyball with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Other servers.
    Quick,
    /// Itself.
    Arch,
    /// Itself, from the disk.
    Disk,
    /// Itself, in bytes.
    Memory,
    /// Itself, in instructions.
    Instructions,
    /// Itself, with more features and fewer.
    Site,
    /// nginx, with the same php-fpm behind it.
    FastCgi,
    /// Other load generators.
    Load,
    /// Other servers that speak TLS.
    Tls,
}

/// What to compare.
#[derive(Debug)]
pub(crate) struct Options {
    /// Whom to compare with.
    pub(crate) kind: Kind,
    /// Timed runs of each contestant in each work.
    pub(crate) rounds: u32,
    /// Length of each, in seconds.
    pub(crate) seconds: u32,
    /// The works, in the order they run.
    pub(crate) works: Vec<&'static Work>,
    /// The contestants, in the order they take turns.
    pub(crate) contestants: Vec<Contestant>,
    /// The servers that were named; none are all.
    pub(crate) servers: Vec<String>,
    /// `KEY=VALUE` settings for Flyball.
    pub(crate) flyball_settings: Vec<String>,
    /// Flyball's binary, when it is not to be built.
    pub(crate) flyball: Option<PathBuf>,
    /// The binary of another build of Flyball to hold it against.
    pub(crate) beside: Option<PathBuf>,
    /// Where the record goes.
    pub(crate) json: Option<PathBuf>,
}

/// Options of the arguments that follow `bench`, or none when help was asked for.
pub(crate) fn parse(args: &[String]) -> Result<Option<Options>, Failure> {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        return Ok(None);
    }
    match args.split_first() {
        Some((first, rest)) if first == "quick" => options(Kind::Quick, rest).map(Some),
        Some((first, rest)) if first == "arch" => options(Kind::Arch, rest).map(Some),
        Some((first, rest)) if first == "disk" => options(Kind::Disk, rest).map(Some),
        Some((first, rest)) if first == "site" => options(Kind::Site, rest).map(Some),
        Some((first, rest)) if first == "fastcgi" => options(Kind::FastCgi, rest).map(Some),
        Some((first, rest)) if first == "load" => options(Kind::Load, rest).map(Some),
        Some((first, rest)) if first == "tls" => options(Kind::Tls, rest).map(Some),
        Some((first, rest)) if first == "memory" => options(Kind::Memory, rest).map(Some),
        Some((first, rest)) if first == "instructions" => {
            options(Kind::Instructions, rest).map(Some)
        }
        _ => Err(Failure::Unusable(USAGE.into())),
    }
}

fn options(kind: Kind, args: &[String]) -> Result<Options, Failure> {
    let (all, archs_of, servers_of): (&[Work], &[&str], &[&str]) = match kind {
        Kind::Quick => (work::ALL, &ARCHS, &Contestant::SERVERS[..4]),
        Kind::Disk => (&[], disk::ARCHS, &["flyball"]),
        Kind::Memory => (&[], memory::ARCHS, &["flyball"]),
        Kind::Instructions => (work::ALL, instructions::ARCHS, &["flyball"]),
        Kind::Site => (&[], site::ARCHS, &["flyball"]),
        Kind::FastCgi => (&[], fastcgi::ARCHS, &["nginx", "flyball", "null"]),
        Kind::Load => (&[], load::ARCHS, &["flyball"]),
        Kind::Tls => (&[], tls::ARCHS, &["flyball"]),
        Kind::Arch => (work::OF_ARCHITECTURES, rivals::ARCHS, &["flyball", "null"]),
    };
    let (mut works, mut servers, mut archs) = (Vec::new(), Vec::new(), Vec::new());
    let mut options = Options {
        kind,
        rounds: ROUNDS,
        seconds: SECONDS,
        works: Vec::new(),
        contestants: Vec::new(),
        servers: Vec::new(),
        flyball_settings: Vec::new(),
        flyball: None,
        beside: None,
        json: None,
    };
    let work_names: Vec<&str> = all.iter().map(|work| work.name).collect();
    let mut args = args.iter().map(String::as_str);
    while let Some(option) = args.next() {
        let missing = || Failure::Unusable(format!("{option} needs a value"));
        let mut value = || args.next().ok_or_else(missing);
        match option {
            "--rounds" => options.rounds = count(option, value()?)?,
            "--seconds" => options.seconds = count(option, value()?)?,
            "--work" => works.push(known(option, value()?, &work_names)?),
            "--server" if kind == Kind::Tls => servers.push(known(option, value()?, tls::SERVERS)?),
            "--server" => servers.push(known(option, value()?, Contestant::SERVERS)?),
            "--arch" => archs.push(value()?.to_owned()),
            "--set" => options.flyball_settings.push(value()?.to_owned()),
            "--flyball" => options.flyball = Some(value()?.into()),
            "--beside" if matches!(kind, Kind::Quick | Kind::Arch | Kind::Instructions) => {
                options.beside = Some(value()?.into());
            }
            "--json" => options.json = Some(value()?.into()),
            _ => return Err(Failure::Unusable(format!("unknown option {option}\n\n{USAGE}"))),
        }
    }
    if archs.is_empty() {
        archs = archs_of.iter().map(|arch| (*arch).to_owned()).collect();
    }
    if works.is_empty() && kind == Kind::Instructions {
        works.extend(instructions::WORKS);
    }
    options.servers = servers.iter().map(|name| (*name).to_owned()).collect();
    let wanted = |chosen: &[&str], name| chosen.is_empty() || chosen.contains(&name);
    options.works = all.iter().filter(|work| wanted(&works, work.name)).collect();
    let servers = servers_of.iter().filter(|name| wanted(&servers, name));
    options.contestants = servers.flat_map(|name| Contestant::of_server(name, &archs)).collect();
    if options.beside.is_some() {
        // Right behind the own build, so that a drift of the machine meets both.
        let pair = |own: Contestant| [own.beside(), Some(own)].into_iter().rev().flatten();
        options.contestants = options.contestants.into_iter().flat_map(pair).collect();
    }
    Ok(options)
}

/// A whole number of at least one.
fn count(option: &str, value: &str) -> Result<u32, Failure> {
    let count = value.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| Failure::Unusable(format!("{option} is {value}, not a number above 0")))
}

/// A value that is one of the names.
fn known<'a>(option: &str, value: &'a str, names: &[&str]) -> Result<&'a str, Failure> {
    let unknown = || format!("{option} is {value}, not one of {}", names.join(", "));
    names.contains(&value).then_some(value).ok_or_else(|| Failure::Unusable(unknown()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<Options>, Failure> {
        parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    fn contestants(options: &Options) -> Vec<String> {
        options.contestants.iter().map(Contestant::name).collect()
    }

    #[test]
    fn without_options_everything_is_compared_in_five_rounds() {
        let options = parsed("quick").unwrap().unwrap();
        assert_eq!((options.rounds, options.seconds, options.works.len()), (5, 5, 5));
        assert_eq!(
            contestants(&options),
            ["flyball-sped", "flyball-n-copy", "nginx", "nginx-deferred", "lighttpd"]
        );
    }

    #[test]
    fn works_servers_and_architectures_can_be_chosen() {
        let line = "quick --work mix --work keep --server lighttpd --server flyball --arch uring";
        let options = parsed(line).unwrap().unwrap();
        let works: Vec<_> = options.works.iter().map(|work| work.name).collect();
        assert_eq!(works, ["keep", "mix"]);
        assert_eq!(contestants(&options), ["flyball-uring", "lighttpd"]);
    }

    #[test]
    fn another_build_takes_its_turn_behind_this_one() {
        let options =
            parsed("quick --beside old --server flyball --server nginx").unwrap().unwrap();
        assert_eq!(
            contestants(&options),
            ["flyball-sped", "beside-sped", "flyball-n-copy", "beside-n-copy", "nginx"]
        );
        assert!(parsed("memory --beside old").is_err());
        let options = parsed("instructions --beside old").unwrap().unwrap();
        assert_eq!(
            options.works.iter().map(|work| work.name).collect::<Vec<_>>(),
            ["new", "keep", "pipe"]
        );
    }

    #[test]
    fn a_wrong_command_line_says_what_is_wrong() {
        for (line, what) in [
            ("quick --work none", "new, keep, pipe, mix, large"),
            ("quick --server apache", "nginx-deferred"),
            ("quick --rounds 0", "above 0"),
            ("quick --seconds", "needs a value"),
            ("quick --fast", "unknown option --fast"),
            ("slow", "cargo xtask bench quick|arch|disk|memory|instructions|site"),
        ] {
            let failure = parsed(line).unwrap_err();
            assert_eq!(failure.exit_status(), 2, "{line}");
            assert!(failure.to_string().contains(what), "{line}: {failure}");
        }
    }

    #[test]
    fn help_is_no_failure() {
        assert!(parsed("quick --help").unwrap().is_none());
    }
}
