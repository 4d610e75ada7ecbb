//! A program that answers, well or badly: as a CGI program (RFC 3875), or with a listening socket
//! as descriptor 0 as a FastCGI responder (FastCGI 1.0), one connection after the other. What it
//! does is the last segment of the path that it is asked for. With a path as its argument it
//! listens there, and prints whatever it is told.

#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::exit;
use std::time::{Duration, Instant};

/// Kinds of records (FastCGI 1.0, section 8).
const BEGIN: u8 = 1;
const ABORT: u8 = 2;
const END: u8 = 3;
const PARAMS: u8 = 4;
const INPUT: u8 = 5;
const OUTPUT: u8 = 6;

/// Longest content of a record that is sent.
const RECORD_MAX: usize = 32 * 1024;

/// Time that a slow answer takes.
const SLOW: Duration = Duration::from_millis(100);

const ANSWER: &[u8] = b"Content-Type: text/plain\r\n\r\nhello\n";

/// How an answer ends.
enum Ending {
    /// As it should.
    Well,
    /// Within the answer: of a responder the connection ends.
    Broken,
}

fn main() {
    if let Some(path) = std::env::args_os().nth(1) {
        return overhear(path.as_ref());
    }
    let input = io::stdin().as_fd().try_clone_to_owned().expect("a standard input");
    let listener = UnixListener::from(input);
    match listener.local_addr() {
        Ok(_) => respond(&listener),
        // It is a pipe.
        Err(_) => {
            let path = std::env::var("REQUEST_URI").unwrap_or_default();
            let body = &mut |buffer: &mut [u8]| io::stdin().read(buffer);
            let output = &mut |bytes: &[u8]| {
                io::stdout().write_all(bytes)?;
                io::stdout().flush()
            };
            let _ = answer(&path, body, output);
        }
    }
}

/// Listens for whatever was meant for another, and tells of each byte.
fn overhear(path: &std::path::Path) {
    let listener = UnixListener::bind(path).expect("a name for the socket");
    println!("listens");
    for mut stream in listener.incoming().flatten() {
        let mut buffer = [0; 64];
        while let Ok(1..) = stream.read(&mut buffer) {
            println!("{}", String::from_utf8_lossy(&buffer));
        }
    }
}

/// Answers one request.
fn answer(
    path: &str,
    body: &mut dyn FnMut(&mut [u8]) -> io::Result<usize>,
    output: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Ending> {
    let mut take_all = || -> io::Result<u64> {
        let (mut buffer, mut len) = (vec![0; RECORD_MAX], 0);
        loop {
            match body(&mut buffer)? {
                0 => return Ok(len),
                n => len += n as u64,
            }
        }
    };
    match path.rsplit('/').next().unwrap_or_default() {
        "never" => loop {
            std::thread::park();
        },
        "mid-head" => output(b"Content-Type: te")?,
        "mid-body" => output(b"Content-Length: 1000\r\n\r\nshort\n")?,
        "malformed" => output(b"no header at all\n\nx")?,
        "closes" => {}
        "dies" => {
            eprintln!("dies of it");
            std::process::abort()
        }
        "exits" => exit(0),
        "flood" => {
            output(b"Content-Type: text/plain\r\n\r\n")?;
            loop {
                output(&[b'y'; RECORD_MAX])?;
            }
        }
        "echo" => {
            output(b"Content-Type: text/plain\r\n\r\n")?;
            let mut buffer = vec![0; RECORD_MAX];
            loop {
                match body(&mut buffer)? {
                    0 => return Ok(Ending::Well),
                    n => output(&buffer[..n])?,
                }
            }
        }
        "sum" => {
            let len = take_all()?;
            output(format!("Content-Type: text/plain\r\n\r\n{len}\n").as_bytes())?;
            return Ok(Ending::Well);
        }
        "id" => {
            take_all()?;
            let id = std::process::id();
            output(format!("Content-Type: text/plain\r\n\r\n{id}\n").as_bytes())?;
            return Ok(Ending::Well);
        }
        "slow" => {
            let began = Instant::now();
            while let Some(left) = SLOW.checked_sub(began.elapsed()) {
                std::thread::park_timeout(left);
            }
            output(ANSWER)?;
            return Ok(Ending::Well);
        }
        _ => {
            take_all()?;
            output(ANSWER)?;
            return Ok(Ending::Well);
        }
    }
    Ok(Ending::Broken)
}

/// Serves one connection after the other, until `DIES_AFTER` connections if that is set.
fn respond(listener: &UnixListener) {
    let most = std::env::var("DIES_AFTER").ok().and_then(|text| text.parse().ok());
    if most == Some(0) {
        eprintln!("it does not want to live");
        exit(1);
    }
    for count in 1.. {
        let Ok((stream, _)) = listener.accept() else { exit(2) };
        // Whoever asked has left, or has said what no server says.
        let _ = serve(stream);
        if most == Some(count) {
            exit(0);
        }
    }
}

/// Serves the requests of one connection, one after the other.
fn serve(stream: UnixStream) -> io::Result<()> {
    let mut input = io::BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let Some(begin) = Record::read(&mut input)? else { return Ok(()) };
        if begin.kind != BEGIN || begin.content.len() != 8 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (id, keeps) = (begin.id, begin.content[2] & 1 == 1);
        let mut params = Vec::new();
        loop {
            let record = Record::read(&mut input)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            match (record.kind, record.content.is_empty()) {
                (PARAMS, true) => break,
                (PARAMS, false) => params.extend_from_slice(&record.content),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        let path = value_of(&params, b"REQUEST_URI").unwrap_or_default();
        if path.ends_with("/bad-record") {
            return stream.write_all(b"\x09 what is this? ");
        }
        let mut body = Body { input: &mut input, left: Vec::new(), ended: false };
        let read = &mut |buffer: &mut [u8]| body.read(buffer);
        let write = &mut |bytes: &[u8]| write_record(&mut stream, OUTPUT, id, bytes);
        if let Ending::Broken = answer(&path, read, write)? {
            return Ok(());
        }
        write_record(&mut stream, OUTPUT, id, b"")?;
        write_record(&mut stream, END, id, &[0; 8])?;
        // What nobody asked for stands before the next request.
        while body.read(&mut [0; 4096])? > 0 {}
        if !keeps {
            return Ok(());
        }
    }
}

struct Record {
    kind: u8,
    id: u16,
    content: Vec<u8>,
}

impl Record {
    /// The next one; `None` at the end of the connection.
    fn read(input: &mut impl Read) -> io::Result<Option<Record>> {
        let mut head = [0; 8];
        match input.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let [1, kind, id_high, id_low, len_high, len_low, padding, _] = head else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let len = usize::from(u16::from_be_bytes([len_high, len_low]));
        let mut content = vec![0; len + usize::from(padding)];
        input.read_exact(&mut content)?;
        content.truncate(len);
        Ok(Some(Record { kind, id: u16::from_be_bytes([id_high, id_low]), content }))
    }
}

fn write_record(stream: &mut UnixStream, kind: u8, id: u16, content: &[u8]) -> io::Result<()> {
    let [id_high, id_low] = id.to_be_bytes();
    let [len_high, len_low] = (content.len() as u16).to_be_bytes();
    let head = [1, kind, id_high, id_low, len_high, len_low, 0, 0];
    stream.write_all(&[&head, content].concat())
}

/// The content of a request, from its records.
struct Body<'a, R> {
    input: &'a mut R,
    left: Vec<u8>,
    ended: bool,
}

impl<R: Read> Body<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left.is_empty() && !self.ended {
            let record = Record::read(self.input)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            match record.kind {
                INPUT if record.content.is_empty() => self.ended = true,
                INPUT => self.left = record.content,
                ABORT => return Err(io::ErrorKind::ConnectionAborted.into()),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        let n = buffer.len().min(self.left.len());
        buffer[..n].copy_from_slice(&self.left[..n]);
        self.left.drain(..n);
        Ok(n)
    }
}

/// The value of a name (FastCGI 1.0, section 3.4).
fn value_of(mut params: &[u8], name: &[u8]) -> Option<String> {
    let len = |params: &mut &[u8]| -> Option<usize> {
        let first = *params.first()?;
        let (len, rest) = match first & 0x80 {
            0 => (u32::from(first), &params[1..]),
            _ => {
                let four = u32::from_be_bytes(*params.first_chunk()?);
                (four & 0x7fff_ffff, &params[4..])
            }
        };
        *params = rest;
        Some(len as usize)
    };
    while !params.is_empty() {
        let (name_len, value_len) = (len(&mut params)?, len(&mut params)?);
        let (found, rest) = params.split_at_checked(name_len)?;
        let (value, rest) = rest.split_at_checked(value_len)?;
        if found == name {
            return Some(String::from_utf8_lossy(value).into_owned());
        }
        params = rest;
    }
    None
}
