//! The admin page in a browser as wide as a phone and as a desk's, by day and in the dark.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::common_programs::devtools::Page;
use crate::common_programs::have;
use crate::common_programs::served::put;
use flyball_testkit::wait::until;
use flyball_testkit::{Launch, Server, wait};

/// The host that is asked most, and the last of the configuration.
const BUSY: &str = "the-busiest-of-all-hosts-and-with-a-long-name.example.org";

/// Its charts are drawn, and the busy host has a rate.
const HAS_BEGUN: &str = "[[...document.querySelectorAll('section svg')].length == 5 && \
    [...document.querySelectorAll('section svg')].every(svg => svg.querySelector('path')), \
    parseFloat((document.querySelector('#hosts td:nth-child(2)') || {}).textContent) > 0].join()";

/// What is to be seen at any width, in a few words.
const LOOK: &str = "(() => { const all = what => [...document.querySelectorAll(what)]; \
    const box = it => it.getBoundingClientRect(); \
    const within = it => box(it).right <= box(it.closest('section')).right; \
    const lit = text => text.match(/[0-9]+/g).slice(0, 3).map(Number).reduce((a, b) => a + b); \
    const back = lit(getComputedStyle(document.body).backgroundColor); \
    const ink = lit(getComputedStyle(document.body).color); \
    const charts = all('section svg'); \
    const apart = texts => texts.every((it, at) => \
      !at || box(texts[at - 1]).right < box(it).left); \
    return [ \
    'fits:' + (document.documentElement.scrollWidth <= innerWidth), \
    'tables:' + (all('table').length == 5 && all('table').every(it => within(it.parentNode) \
      && it.parentNode.className == 'scroll')), \
    'times:' + charts.every(it => { const texts = [...it.querySelectorAll('.x')]; \
      return texts.length > 0 && apart(texts) \
      && texts.every(text => /^[0-2][0-9]:[0-5][0-9]:[0-5][0-9]$/.test(text.textContent)); }), \
    'values:' + charts.every(it => [...it.querySelectorAll('.y')].map(text => \
      parseFloat(text.textContent)).every((value, at, all) => \
      at ? value > all[at - 1] : value === 0)), \
    'drawn:' + charts.every(it => within(it) && it.querySelector('path')), \
    'first:' + document.querySelector('#hosts td').textContent, \
    'dark:' + (back < 200), 'legible:' + (Math.abs(back - ink) > 400), \
    ].join('|'); })()";

#[test]
#[ignore = "full tier"]
fn chromium_shows_the_admin_page_on_a_phone_and_a_desk_by_day_and_in_the_dark() {
    if !have(&["chromium"]) {
        return;
    }
    let home = tempfile::tempdir().expect("a temporary directory");
    put(&home.path().join("small.txt"), "small");
    let mut config = String::from("admin = \"127.0.0.1:0\"\nworkers = 2\n");
    let hosts = (0..30).map(|number| format!("host-{number}.example.org"));
    for host in hosts.chain([BUSY.to_owned()]) {
        config += &format!("[[site]]\nhosts = [{host:?}]\nroot = {:?}\n", home.path());
    }
    let server = Launch::config(config).start().expect("it starts");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| ask_until(&is_over, &server));
        let over = Over(&is_over);
        let mut page = Page::open(&format!("http://{}/", server.admin()), home.path());
        let begun = until(wait::DEADLINE, || (page.seen(HAS_BEGUN) == "true,true").then_some(()));
        assert!(begun.is_some(), "nothing is drawn: {:?}", page.complaints());
        for (width, is_dark) in [(390, false), (390, true), (1280, false), (1280, true)] {
            page.show(width, is_dark);
            let wanted = format!(
                "fits:true|tables:true|times:true|values:true|drawn:true|first:{BUSY}|\
                 dark:{is_dark}|legible:true"
            );
            let mut seen = String::new();
            let shown = until(wait::DEADLINE, || {
                seen = page.seen(LOOK);
                (seen == wanted).then_some(())
            });
            assert!(shown.is_some(), "{width}: {seen}");
        }
        assert!(page.complaints().is_empty(), "{:#?}", page.complaints());
        drop(over);
    });
}

/// Ends who asks also where the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Asks the busy host ten times for each time that it asks another.
fn ask_until(is_over: &AtomicBool, server: &Server) {
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    for turn in 0_u32.. {
        if is_over.load(Relaxed) {
            return;
        }
        let other = format!("host-{}.example.org", turn / 11 % 30);
        let host = if turn.is_multiple_of(11) { &other } else { BUSY };
        let request = format!("GET /small.txt HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut piece = [0; 4096];
        assert_ne!(stream.read(&mut piece).expect("it answers"), 0);
    }
}
