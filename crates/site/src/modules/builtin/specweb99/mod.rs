//! The dynamic requests of SPECweb99: standard GET, GET with custom ad rotation, POST, and the
//! commands Reset and Fetch, in one module for all architectures (S1, Section 3).
//!
//! | request | reply |
//! | --- | --- |
//! | `GET SCRIPT?/file_set/dir00001/class2_3` | a page with the file in it |
//! | the same, with a cookie `my_cookie=user_id=U&last_ad=N` | with another ad, and a cookie |
//! | `POST SCRIPT` with `urlroot=..&dir=..&class=..&num=..&client=..` | the same, and a record |
//! | `GET SCRIPT?command/Reset&maxload=..&pttime=..&exp=a,b` | new tables, an empty log |
//! | `GET SCRIPT?command/Fetch` | the log |
//!
//! Options: `root`, the directory that the site serves; `log`, where records go (`postlog` in the
//! root). What all processes must agree on is in counters that they share, and files are opened
//! with the rights of the start: it must be loaded there, which `load` says by default.

mod ads;
mod page;
mod post_log;
mod query;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

use flyball_http::Remote;
use flyball_module::{Exchange, Module, Open, Refused, Setup, Turn, Wake};
use flyball_sys::shared_file::read_whole;

use ads::{ADS, Rotation};
use page::Page;
use post_log::{Post, PostLog};
use query::{commands, is_file_name, value_of};

/// The options.
const OPTIONS: [&str; 2] = ["root", "log"];

/// What a cookie adds to the number of a user.
const USER_BASE: u64 = 10_000;

/// Most bytes of what is posted.
const POST_MAX: usize = 4096;

/// Bytes of the log that leave in one piece.
const PIECE: u64 = 256 << 10;

/// Users in the tables where nobody says how many.
const USERS: u64 = 1_000;

/// Most of them: their numbers have five digits in a record.
const USERS_MAX: u64 = 99_999;

/// Hours within which ads expire, where nobody says.
const EXPIRES: (u64, u64) = (1, 100);

/// The module.
#[derive(Debug)]
pub(super) struct SpecWeb99 {
    root: PathBuf,
    ads: Rotation,
    log: PostLog,
}

impl Open for SpecWeb99 {
    // It reads the files in which it replaces an advertisement.
    const BLOCKS: bool = true;

    fn open(setup: &mut dyn Setup) -> Result<SpecWeb99, String> {
        if let Some((key, _)) = setup.options().iter().find(|(key, _)| !OPTIONS.contains(&&**key)) {
            return Err(format!("there is no option {key}: there are root and log"));
        }
        let root =
            setup.option("root").ok_or("the option root is missing: the directory served")?;
        let root = PathBuf::from(root);
        let log = setup.option("log").map_or_else(|| root.join("postlog"), PathBuf::from);
        let counters: &'static [AtomicU64] = setup.counters(post_log::COUNTERS + ads::COUNTERS)?;
        let (of_log, of_ads) = counters.split_at(post_log::COUNTERS);
        let told = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        let log = PostLog::open(&log, of_log).map_err(|error| told(&log, error))?;
        let ads = Rotation::open(&root, of_ads).map_err(|error| told(&root, error))?;
        if !ads.are_there() {
            ads.make(USERS, 1, EXPIRES, now_s()).map_err(|error| told(&root, error))?;
        }
        Ok(SpecWeb99 { root, ads, log })
    }
}

impl Module for SpecWeb99 {
    fn answer(&self, exchange: &mut dyn Exchange) -> Turn {
        let done = match exchange.method() {
            b"POST" => return self.post(exchange),
            b"GET" | b"HEAD" => self.get(exchange),
            _ => status(exchange, 405),
        };
        match done {
            Ok(turn) => turn,
            Err(refused) => {
                exchange.log(&refused.to_string());
                Turn::Failed
            }
        }
    }
}

impl SpecWeb99 {
    fn get(&self, exchange: &mut dyn Exchange) -> Result<Turn, Refused> {
        let query = String::from_utf8_lossy(exchange.query()).into_owned();
        if let Some(command) = query.strip_prefix("command/") {
            return self.command(command, exchange);
        }
        if !is_file_name(&query) {
            return status(exchange, 404);
        }
        let cookie = exchange.cookie(b"my_cookie").map(<[u8]>::to_vec);
        match cookie.as_deref().and_then(|cookie| str::from_utf8(cookie).ok()) {
            Some(cookie) => self.rotated(&query, cookie, exchange),
            None => plain(&query, &query, exchange),
        }
    }

    /// A page with the advertisement that is this user's turn.
    fn rotated(
        &self,
        name: &str,
        cookie: &str,
        exchange: &mut dyn Exchange,
    ) -> Result<Turn, Refused> {
        let number = |key| value_of(cookie, key)?.parse::<u64>().ok();
        let user = number("user_id").and_then(|user| user.checked_sub(USER_BASE));
        let last = number("last_ad").filter(|last| *last < ADS as u64);
        let chosen = match (user, last) {
            (Some(user), Some(last)) => self.ads.choose(user as usize, last as usize),
            _ => Ok(None),
        };
        let Ok(chosen) = chosen else { return status(exchange, 500) };
        let value = match chosen {
            Some(ad) => {
                let expired = u8::from(ad.expires_s <= now_s());
                format!("Ad_id={}&Ad_weight={}&Expired={expired}", ad.number, ad.weight)
            }
            None => "Ad_id=-1&Ad_weight=0&Expired=1".into(),
        };
        exchange.add_field(b"Set-Cookie", format!("found_cookie={value}").as_bytes())?;
        let Some(ad) = chosen.filter(|_| page::has_tag(name)) else {
            return plain(name, name, exchange);
        };
        let path = self.root.join(name.trim_start_matches('/'));
        let Ok(mut file) = read_whole(&path) else { return status(exchange, 404) };
        page::replace_ads(&mut file, ad.number);
        let page = page_of(name, exchange);
        exchange.add_field(b"Content-Type", b"text/html")?;
        exchange.write(page.head().as_bytes())?;
        exchange.write(&file)?;
        exchange.write(page::TAIL)?;
        Ok(Turn::Done)
    }

    /// Takes what is posted, as it comes.
    fn post(&self, exchange: &mut dyn Exchange) -> Turn {
        let this = Posting { log: self.log.clone(), text: Vec::new() };
        this.go_on(exchange)
    }

    fn command(&self, command: &str, exchange: &mut dyn Exchange) -> Result<Turn, Refused> {
        match commands(command) {
            ("Reset", arguments) => {
                let number = |key| value_of(arguments, key)?.parse::<u64>().ok();
                let users = number("maxload").unwrap_or(USERS).clamp(1, USERS_MAX);
                let expires = value_of(arguments, "exp").and_then(|text| text.split_once(','));
                let expires = expires.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                let expires = expires.filter(|(a, b)| a <= b).unwrap_or(EXPIRES);
                let seed = number("pttime").unwrap_or(1);
                let made = self.ads.make(users, seed, expires, now_s());
                match made.and_then(|()| self.log.clear()) {
                    Ok(()) => {
                        exchange.add_field(b"Content-Type", b"text/plain")?;
                        exchange.write(format!("{users} users, {ADS} ads\n").as_bytes())?;
                        Ok(Turn::Done)
                    }
                    Err(error) => {
                        exchange.log(&format!("the tables and the log are as before: {error}"));
                        status(exchange, 500)
                    }
                }
            }
            ("Fetch", _) => {
                let Ok(len) = self.log.len() else { return status(exchange, 500) };
                exchange.add_field(b"Content-Type", b"text/plain")?;
                exchange.add_field(b"Content-Length", len.to_string().as_bytes())?;
                Ok(fetched(self.log.clone(), 0, len, exchange))
            }
            _ => status(exchange, 404),
        }
    }
}

/// A page with a file in it as it is; `query` is what the page says was asked for.
fn plain(name: &str, query: &str, exchange: &mut dyn Exchange) -> Result<Turn, Refused> {
    let page = page_of(query, exchange);
    exchange.add_field(b"Content-Type", b"text/html")?;
    exchange.write(page.head().as_bytes())?;
    exchange.send_file(name.as_bytes(), 0, None)?;
    exchange.write(page::TAIL)?;
    Ok(Turn::Done)
}

fn page_of(query: &str, exchange: &dyn Exchange) -> Page {
    Page {
        software: "Flyball".into(),
        address: exchange.peer().map_or(Remote::Unix, Remote::Ip).to_string(),
        script: String::from_utf8_lossy(exchange.path()).into_owned(),
        query: query.into(),
    }
}

fn status(exchange: &mut dyn Exchange, code: u16) -> Result<Turn, Refused> {
    exchange.set_status(code)?;
    Ok(Turn::Done)
}

/// The rest of the log, a piece at a time.
fn fetched(log: PostLog, from: u64, end: u64, exchange: &mut dyn Exchange) -> Turn {
    let len = PIECE.min(end - from);
    let Ok(piece) = log.read(from, len as usize) else { return Turn::Failed };
    if exchange.write(&piece).is_err() {
        return Turn::Failed;
    }
    let next = from + len;
    if next == end {
        return Turn::Done;
    }
    let rest = move |exchange: &mut dyn Exchange| fetched(log, next, end, exchange);
    Turn::Wait(Wake::Room, Box::new(rest))
}

/// What was posted so far.
struct Posting {
    log: PostLog,
    text: Vec<u8>,
}

impl Posting {
    fn go_on(mut self, exchange: &mut dyn Exchange) -> Turn {
        let here = exchange.body().len();
        self.text.extend_from_slice(exchange.body());
        let is_over = exchange.body_ended();
        exchange.take(here);
        let done = if self.text.len() > POST_MAX {
            status(exchange, 413)
        } else if is_over {
            self.posted(exchange)
        } else {
            let rest = move |exchange: &mut dyn Exchange| self.go_on(exchange);
            return Turn::Wait(Wake::Body, Box::new(rest));
        };
        done.unwrap_or(Turn::Failed)
    }

    /// Writes the record, and answers with the file that it names.
    fn posted(&self, exchange: &mut dyn Exchange) -> Result<Turn, Refused> {
        let text = String::from_utf8_lossy(&self.text).into_owned();
        let number = |key| value_of(&text, key)?.trim().parse::<u64>().ok();
        let numbers = (number("dir"), number("class"), number("num"), number("client"));
        let (Some(directory), Some(class), Some(file), Some(client)) = numbers else {
            return status(exchange, 400);
        };
        let cookie = exchange.cookie(b"my_cookie").map(<[u8]>::to_vec).unwrap_or_default();
        let cookie = String::from_utf8_lossy(&cookie).into_owned();
        let user = value_of(&cookie, "user_id").unwrap_or(&cookie).parse().unwrap_or(0);
        let root = value_of(&text, "urlroot").unwrap_or("/file_set/");
        let name = format!("{}/dir{directory:05}/class{class}_{file}", root.trim_end_matches('/'));
        let fits = directory < 100_000 && class < 10 && file < 10 && client < 10_000_000_000;
        if !fits || !is_file_name(&name) {
            return status(exchange, 400);
        }
        let post = Post { directory, class, file, client, name: &name, cookie: user };
        if let Err(error) = self.log.append(&post, now_s()) {
            exchange.log(&format!("the record was not written: {error}"));
            return status(exchange, 500);
        }
        exchange.add_field(b"Set-Cookie", format!("my_cookie={user}").as_bytes())?;
        plain(&name, "", exchange)
    }
}

/// Seconds since 1970.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
