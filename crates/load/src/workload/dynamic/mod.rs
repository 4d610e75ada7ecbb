//! The dynamic requests of SPECweb99, in whatever share of a mix of its files: standard dynamic
//! GET, the same by a CGI program, GET with custom ad rotation, and POST.
//!
//! A GET of either kind names any file of the set. What carries a user, the last ad or a client
//! number is drawn before the run, [`DRAWN`] of each, and then drawn from: a request costs nothing
//! to make, and what its reply must be is known beforehand.

mod ads;
mod commands;
mod page;

use std::str::FromStr;
use std::sync::Arc;

pub use commands::PostLog;
pub(crate) use commands::fetch_log;
pub use page::{Page, PageSeen, RULES, Rule};

use super::{Catalog, Expected, Message, RequestId};
use crate::dial::Peer;
use crate::fileset::{File, FileContent, Mix};
use crate::random::{Purpose, Random};
use ads::{ADS, Tables};
use page::Cookie;

/// Requests with ads, and requests that post, that are drawn before the run.
const DRAWN: usize = 8_192;

/// What a cookie adds to the number of a user.
const USER_BASE: usize = 10_000;

/// Client numbers that are posted are below this.
const CLIENTS: usize = 1_000;

/// The shares of the kinds without CGI, in percent of the dynamic requests (S1, Section 4.2).
const WITHOUT_CGI: [f64; 4] = [42.0, 0.0, 42.0, 16.0];

/// Those of all of SPECweb99, in percent of all requests.
const FULL: [f64; 4] = [12.45, 0.15, 12.6, 4.8];

/// Which share of the requests is dynamic, how it is divided, and who answers.
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicOptions {
    /// The share of all requests, of 0 to 1.
    pub share: f64,
    /// How often the kinds are among them: standard GET, CGI, ad rotation, POST; any sum.
    pub kinds: [f64; 4],
    /// The path that answers them.
    pub script: String,
    /// The path of the CGI program.
    pub cgi: String,
}

impl FromStr for DynamicOptions {
    type Err = String;

    /// `30` or `30:42/0/42/16`, in percent, or `full`.
    fn from_str(text: &str) -> Result<DynamicOptions, String> {
        let wrong = || "expected a percentage, such as 30 or 30:42/0/42/16, or full".to_string();
        let (script, cgi) = ("/specweb99-dynamic".into(), "/cgi-bin/specweb99-cgi".into());
        if text == "full" {
            let share = FULL.iter().sum::<f64>() / 100.0;
            return Ok(DynamicOptions { share, kinds: FULL, script, cgi });
        }
        let (percent, kinds) = match text.split_once(':') {
            Some((percent, kinds)) => (percent, Some(kinds)),
            None => (text, None),
        };
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number >= 0.0);
        let percent = number(percent).filter(|percent| *percent <= 100.0).ok_or_else(wrong)?;
        let kinds = match kinds {
            None => WITHOUT_CGI,
            Some(kinds) => {
                let kinds: Option<Vec<f64>> = kinds.split('/').map(number).collect();
                let kinds: Option<[f64; 4]> = kinds.and_then(|kinds| kinds.try_into().ok());
                kinds.filter(|kinds| kinds.iter().sum::<f64>() > 0.0).ok_or_else(wrong)?
            }
        };
        Ok(DynamicOptions { share: percent / 100.0, kinds, script, cgi })
    }
}

/// What the files of the set are, and where requests for them go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) peer: Peer<'a>,
    /// The path of the set on the server, without a slash at its end.
    pub(crate) base: &'a str,
    pub(crate) files: &'a [File],
    /// The seed of the set.
    pub(crate) seed: u64,
}

/// The dynamic part of a mix.
#[derive(Clone, Debug)]
pub struct Dynamic {
    share: f64,
    /// Shares of the kinds up to and with each.
    upto: [f64; 4],
    /// Where the requests of each kind begin in the catalog.
    first: [RequestId; 4],
}

impl Dynamic {
    /// Resets the server's tables and log, reads the tables, and puts every request into the
    /// catalog. Blocks on the server for at most some seconds.
    ///
    /// # Errors
    /// When the server has no such script, or its tables are wrong, and what to do.
    pub(crate) fn new(
        asked: &DynamicOptions,
        place: Place<'_>,
        mix: &Mix,
        message: &Message,
        catalog: &mut Catalog,
        seed: u64,
    ) -> Result<Dynamic, String> {
        let tables = commands::reset(asked, place, message, catalog, seed)?;
        let mut random = Random::new(seed, Purpose::Dynamic);
        let maker = Maker { asked, place, message };
        let mut first = [0; 4];
        for (kind, first) in first.iter_mut().enumerate() {
            *first = catalog.len() as RequestId;
            match kind {
                0 | 1 if asked.kinds[kind] > 0.0 => {
                    let script = if kind == 0 { &asked.script } else { &asked.cgi };
                    place.files.iter().for_each(|file| {
                        catalog.add(&maker.get(script, file));
                    });
                }
                2 => (0..DRAWN).for_each(|_| {
                    let file = &place.files[mix.draw(&mut random) as usize];
                    catalog.add(&maker.ad(file, &tables, &mut random));
                }),
                3 => (0..DRAWN).for_each(|_| {
                    let at = mix.draw(&mut random) as usize;
                    catalog.add(&maker.post(at, &tables, &mut random));
                }),
                _ => {}
            }
        }
        let all: f64 = asked.kinds.iter().sum();
        let mut sum = 0.0;
        let upto = asked.kinds.map(|kind| {
            sum += kind / all;
            sum
        });
        Ok(Dynamic { share: asked.share, upto, first })
    }

    /// What it is in words.
    pub(crate) fn words(&self) -> String {
        let mut before = 0.0;
        let kinds = self.upto.map(|upto| {
            let percent = (upto - before) * 100.0;
            before = upto;
            percent
        });
        let [get, cgi, ad, post] = kinds;
        let percent = self.share * 100.0;
        format!(
            "; {percent:.1} % dynamic: {get:.1} % GET, {cgi:.1} % CGI, {ad:.1} % with ads, \
             {post:.1} % POST"
        )
    }

    /// The request for the file at this place in its set, if it is to be a dynamic one; those with
    /// ads and those that post have drawn a file of their own.
    pub(super) fn draw(&self, file: RequestId, random: &mut Random) -> Option<RequestId> {
        if self.share < 1.0 && !random.chance(self.share) {
            return None;
        }
        let drawn = random.unit();
        let kind = self.upto.iter().position(|upto| drawn < *upto).unwrap_or(0);
        let offset = if kind < 2 { file } else { random.below(DRAWN) as RequestId };
        Some(self.first[kind] + offset)
    }
}

/// Makes requests.
struct Maker<'a> {
    asked: &'a DynamicOptions,
    place: Place<'a>,
    message: &'a Message,
}

impl Maker<'_> {
    fn get(&self, script: &str, file: &File) -> Message {
        self.page(script, file, None, Cookie::Absent)
    }

    fn ad(&self, file: &File, tables: &Tables, random: &mut Random) -> Message {
        let (user, last) = (random.below(tables.users()), random.below(ADS));
        let found = tables.choose(user, last);
        let shown = found.filter(|_| has_tag(&file.name)).map(|found| {
            let ad = found.ad;
            format!("dir{:05}/class{}_{}", ad / 36, ad % 36 / 9, ad % 9)
        });
        let mut message =
            self.page(&self.asked.script, file, shown.as_deref(), Cookie::Found(found));
        message.fields.push(cookie(user, last));
        message
    }

    fn post(&self, at: usize, tables: &Tables, random: &mut Random) -> Message {
        let file = &self.place.files[at];
        let (user, last) = (random.below(tables.users()), random.below(ADS));
        let user_number = (USER_BASE + user) as u32;
        let page = self.page(&self.asked.script, file, None, Cookie::User(user_number));
        let (directory, class, number) = (at / 36, at % 36 / 9, at % 9);
        let client = random.below(CLIENTS);
        let body = format!(
            "urlroot={}/file_set/&dir={directory}&class={class}&num={number}&client={client}",
            self.place.base
        );
        let mut message = Message {
            method: "POST".into(),
            target: self.asked.script.clone(),
            body: body.into_bytes(),
            ..page
        };
        message.fields.push(cookie(user, last));
        message.fields.push("Content-Type: application/x-www-form-urlencoded".into());
        message
    }

    /// A GET of the page that wraps a file, with another advertisement in it or its own.
    fn page(&self, script: &str, file: &File, ad: Option<&str>, cookie: Cookie) -> Message {
        let query = format!("{}/{}", self.place.base, file.name);
        let content = FileContent::new(&file.name, file.size, self.place.seed);
        let content = match ad {
            Some(ad) => content.with_advertisement(ad),
            None => content,
        };
        let is_posted = matches!(cookie, Cookie::User(_));
        let page = Page {
            script: script.into(),
            query: if is_posted { String::new() } else { query.clone() },
            content,
            cookie,
            stays: !self.message.http10,
        };
        Message {
            method: "GET".into(),
            target: format!("{script}?{query}"),
            body: Vec::new(),
            class: super::fileset::class_of(file.size),
            expected: Expected { page: Some(Arc::new(page)), ..Expected::default() },
            ..self.message.clone()
        }
    }
}

fn cookie(user: usize, last_ad: usize) -> String {
    format!("Cookie: my_cookie=user_id={}&last_ad={last_ad}", USER_BASE + user)
}

/// Whether a file has the tag of an advertisement: those of classes 1 and 2 do.
fn has_tag(name: &str) -> bool {
    name.contains("/class1_") || name.contains("/class2_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fileset::{Kind, Manifest, Parameters};

    fn text(catalog: &Catalog, id: RequestId) -> String {
        String::from_utf8(catalog.request(id).bytes.to_vec()).unwrap()
    }

    #[test]
    fn shares_are_read_and_wrong_ones_refused() {
        let read = |text: &str| text.parse::<DynamicOptions>();
        assert_eq!(read("30").unwrap().share, 0.3);
        assert_eq!(read("30").unwrap().kinds, WITHOUT_CGI);
        assert_eq!(read("100:1/2/3/4").unwrap().kinds, [1.0, 2.0, 3.0, 4.0]);
        assert!((read("full").unwrap().share - 0.3).abs() < 1e-9);
        for wrong in ["", "101", "-1", "x", "30:1/2/3", "30:0/0/0/0", "30:1/2/3/x", "NaN"] {
            assert!(read(wrong).unwrap_err().contains("30:42/0/42/16"), "{wrong}");
        }
    }

    #[test]
    fn requests_are_as_the_benchmark_has_them() {
        let kind = Kind::SpecWeb99;
        let parameters = Parameters { directories: 2, ..kind.defaults() };
        let files = Manifest { kind, parameters }.files().unwrap();
        let asked: DynamicOptions = "100".parse().unwrap();
        let peer = Peer { address: ([127, 0, 0, 1], 80).into(), client: None };
        let place = Place { peer, base: "/a", files: &files, seed: 1 };
        let message = Message::default();
        let maker = Maker { asked: &asked, place, message: &message };
        let all = 0x3fff_ffff;
        let tables = ads::tables(all, &[(75, all, 0x1_1111, 5, 0)]);
        let mut random = Random::new(1, Purpose::Dynamic);
        let mut catalog = Catalog::new("h", Vec::new());
        let get = catalog.add(&maker.get("/s", &files[46]));
        let start = "GET /s?/a/file_set/dir00001/class1_1 HTTP/1.1\r\n";
        assert!(text(&catalog, get).starts_with(start), "{}", text(&catalog, get));
        let ad = catalog.add(&maker.ad(&files[46], &tables, &mut random));
        assert!(text(&catalog, ad).contains("\r\nCookie: my_cookie=user_id=10000&last_ad="));
        let page = catalog.request(ad).expected.page.clone().unwrap();
        let mut file = vec![0; 2048];
        page.content.fill(0, &mut file);
        let file = String::from_utf8(file).unwrap();
        assert!(file.contains("\"/file_set/dir00002/class0_3\""), "ad 75 is the third directory's");
        let post = catalog.add(&maker.post(46, &tables, &mut random));
        let sent = text(&catalog, post);
        assert!(sent.starts_with("POST /specweb99-dynamic HTTP/1.1\r\n"), "{sent}");
        assert!(
            sent.contains("\r\n\r\nurlroot=/a/file_set/&dir=1&class=1&num=1&client="),
            "{sent}"
        );
        assert!(catalog.request(post).expected.page.as_ref().unwrap().is_posted());
    }
}
