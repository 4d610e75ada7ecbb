//! The side of the module: from the C ABI to the trait.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::AtomicU64;

use std::ffi::{c_char, c_void};

use crate::abi::{Bytes, Calls, SetupCalls, part};
use crate::exchange::{Exchange, Refused};
use crate::module::Setup;

/// Exports a module of this type from a crate of the type `cdylib`.
///
/// ```
/// use flyball_module::{Exchange, Module, Open, Setup, Turn};
///
/// struct Hello;
///
/// impl Open for Hello {
///     fn open(_: &mut dyn Setup) -> Result<Hello, String> {
///         Ok(Hello)
///     }
/// }
///
/// impl Module for Hello {
///     fn answer(&self, exchange: &mut dyn Exchange) -> Turn {
///         match exchange.write(b"hello\n") {
///             Ok(()) => Turn::Done,
///             Err(_) => Turn::Failed,
///         }
///     }
/// }
///
/// flyball_module::export!(Hello);
/// ```
#[macro_export]
macro_rules! export {
    ($module:ty) => {
        /// What the server looks for.
        #[unsafe(no_mangle)]
        pub extern "C" fn flyball_module_entry(_abi: u32) -> *const $crate::abi::ModuleTable {
            &$crate::glue::Glue::<$module>::TABLE
        }
    };
}

/// What [`export!`] is made of; nothing here is for use by name.
#[doc(hidden)]
pub mod glue {
    use std::any::Any;
    use std::ffi::{c_int, c_void};
    use std::marker::PhantomData;
    use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};

    use super::{Foreign, ForeignSetup};
    use crate::abi::{ABI, Calls, ModuleTable, SetupCalls, flag, turn};
    use crate::module::{Open, Pending, Turn, Wake};

    /// The table of a module.
    #[derive(Debug)]
    pub struct Glue<M>(PhantomData<M>);

    impl<M: Open> Glue<M> {
        /// The table.
        pub const TABLE: ModuleTable = ModuleTable {
            abi: ABI,
            size: size_of::<ModuleTable>() as u32,
            flags: if M::BLOCKS { flag::BLOCKS } else { 0 },
            reserved: 0,
            open: Some(open::<M>),
            close: Some(close::<M>),
            answer: Some(answer::<M>),
            forget: Some(forget),
        };
    }

    unsafe extern "C" fn open<M: Open>(
        calls: *const SetupCalls,
        setup: *mut c_void,
        instance: *mut *mut c_void,
    ) -> c_int {
        // Of this library alone. A backtrace would look at files that a worker may not open.
        set_hook(Box::new(|panic| {
            let at = panic.location().map(ToString::to_string).unwrap_or_default();
            // It may hold what a client wrote, and the server's log is out of reach.
            let said = said(panic.payload());
            eprintln!("flyball: module: a panic at {at}: {}", said.escape_debug());
        }));
        // SAFETY: the server gives a table of this version of the ABI, which lives for this call.
        let mut setup = unsafe { ForeignSetup::new(&*calls, setup) };
        let opened = catch_unwind(AssertUnwindSafe(|| M::open(&mut setup)));
        match opened.unwrap_or_else(|panic| Err(format!("it panicked: {}", said(&*panic)))) {
            Ok(module) => {
                // SAFETY: the server gives a place for the pointer.
                unsafe { *instance = Box::into_raw(Box::new(module)).cast() };
                0
            }
            Err(why) => {
                setup.fail(&why);
                1
            }
        }
    }

    unsafe extern "C" fn close<M: Open>(instance: *mut c_void) {
        // SAFETY: it is what `open` gave out, and the server uses it no more.
        let module = unsafe { Box::from_raw(instance.cast::<M>()) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(module)));
    }

    unsafe extern "C" fn answer<M: Open>(
        instance: *mut c_void,
        calls: *const Calls,
        exchange: *mut c_void,
        pending: *mut *mut c_void,
    ) -> c_int {
        // SAFETY: it is what `open` gave out, which is shared between threads as `Module` allows.
        let module = unsafe { &*instance.cast::<M>() };
        // SAFETY: the server gives a table of this version of the ABI, which lives for this call.
        let mut exchange = unsafe { Foreign::new(&*calls, exchange) };
        // SAFETY: the server gives a place with null, or with what an earlier call left there.
        let before = unsafe { std::mem::replace(&mut *pending, std::ptr::null_mut()) };
        let rest = (!before.is_null()).then(|| {
            // SAFETY: an earlier call left it there, and nothing else has it.
            unsafe { Box::from_raw(before.cast::<Box<dyn Pending>>()) }
        });
        let turn = catch_unwind(AssertUnwindSafe(|| match rest {
            None => module.answer(&mut exchange),
            Some(rest) => rest.go_on(&mut exchange),
        }));
        let Ok(turn) = turn else { return turn::PANICKED };
        let (wake, rest) = match turn {
            Turn::Done => return turn::DONE,
            Turn::Failed => return turn::FAILED,
            Turn::Wait(wake, rest) => (wake, rest),
        };
        // SAFETY: the place is still there.
        unsafe { *pending = Box::into_raw(Box::new(rest)).cast() };
        match wake {
            Wake::Body => turn::BODY,
            Wake::Room => turn::ROOM,
            Wake::After(ms) => {
                exchange.wait_ms(ms);
                turn::TIMER
            }
        }
    }

    unsafe extern "C" fn forget(_: *mut c_void, pending: *mut c_void) {
        // SAFETY: `answer` left it, and it is not continued.
        let pending = unsafe { Box::from_raw(pending.cast::<Box<dyn Pending>>()) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(pending)));
    }

    /// What a panic said.
    fn said(panic: &(dyn Any + Send)) -> &str {
        let text = panic.downcast_ref::<&str>().copied();
        text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
    }
}

/// The exchange of a server on the other side of the ABI.
#[derive(Debug)]
struct Foreign<'a> {
    calls: &'a Calls,
    exchange: *mut c_void,
    /// The name of the request, once it was asked for.
    id: String,
}

impl<'a> Foreign<'a> {
    /// # Safety
    /// `exchange` is what the server gave with these calls, and this is used for that call only.
    unsafe fn new(calls: &'a Calls, exchange: *mut c_void) -> Foreign<'a> {
        Foreign { calls, exchange, id: String::new() }
    }

    fn wait_ms(&mut self, ms: u64) {
        // SAFETY: `exchange` belongs to these calls (`new`).
        unsafe { (self.calls.wait_ms)(self.exchange, ms) }
    }

    fn part(&self, part: u32) -> &[u8] {
        // SAFETY: `exchange` belongs to these calls (`new`), and what is given out lives until the
        // next call that changes something, which borrows `self` as mutable.
        unsafe { (self.calls.request)(self.exchange, part).slice() }.unwrap_or_default()
    }

    fn done(result: i32) -> Result<(), Refused> {
        match result {
            0 => Ok(()),
            2 => Err(Refused::TooLate),
            3 => Err(Refused::TooMuch),
            _ => Err(Refused::Malformed),
        }
    }
}

fn text(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

impl Exchange for Foreign<'_> {
    fn method(&self) -> &[u8] {
        self.part(part::METHOD)
    }

    fn target(&self) -> &[u8] {
        self.part(part::TARGET)
    }

    fn path(&self) -> &[u8] {
        self.part(part::PATH)
    }

    fn below(&self) -> &[u8] {
        self.part(part::BELOW)
    }

    fn query(&self) -> &[u8] {
        self.part(part::QUERY)
    }

    fn field(&self, name: &[u8]) -> Option<&[u8]> {
        // SAFETY: as in `part`; the name lives for the call.
        unsafe { (self.calls.field)(self.exchange, text(name), name.len()).slice() }
    }

    fn field_at(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let (mut name, mut value) = (Bytes::NONE, Bytes::NONE);
        // SAFETY: as in `part`; both places live for the call.
        let found =
            unsafe { (self.calls.field_at)(self.exchange, index, &mut name, &mut value) != 0 };
        // SAFETY: as in `part`.
        found.then(|| unsafe {
            (name.slice().unwrap_or_default(), value.slice().unwrap_or_default())
        })
    }

    fn peer(&self) -> Option<IpAddr> {
        let mut address = [0; 16];
        // SAFETY: as in `part`; the place lives for the call.
        match unsafe { (self.calls.peer)(self.exchange, &mut address) } {
            0 => None,
            4 => Some(Ipv4Addr::new(address[0], address[1], address[2], address[3]).into()),
            _ => Some(Ipv6Addr::from(address).into()),
        }
    }

    fn id(&mut self) -> &str {
        self.id = String::from_utf8_lossy(self.part(part::ID)).into_owned();
        &self.id
    }

    fn body(&self) -> &[u8] {
        // SAFETY: as in `part`.
        unsafe { (self.calls.body)(self.exchange).slice() }.unwrap_or_default()
    }

    fn take(&mut self, n: usize) {
        // SAFETY: `exchange` belongs to these calls (`new`).
        unsafe { (self.calls.take)(self.exchange, n) }
    }

    fn body_ended(&self) -> bool {
        // SAFETY: `exchange` belongs to these calls (`new`).
        unsafe { (self.calls.body_ended)(self.exchange) != 0 }
    }

    fn set_status(&mut self, code: u16) -> Result<(), Refused> {
        // SAFETY: `exchange` belongs to these calls (`new`).
        Self::done(unsafe { (self.calls.set_status)(self.exchange, u32::from(code)) })
    }

    fn add_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Refused> {
        let [name, value] = [(text(name), name.len()), (text(value), value.len())];
        // SAFETY: `exchange` belongs to these calls (`new`), and the bytes live for the call.
        Self::done(unsafe {
            (self.calls.add_field)(self.exchange, name.0, name.1, value.0, value.1)
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        // SAFETY: `exchange` belongs to these calls (`new`), and the bytes live for the call.
        Self::done(unsafe { (self.calls.write)(self.exchange, bytes.as_ptr().cast(), bytes.len()) })
    }

    fn send_file(&mut self, path: &[u8], offset: u64, len: Option<u64>) -> Result<(), Refused> {
        let len = len.unwrap_or(u64::MAX);
        // SAFETY: `exchange` belongs to these calls (`new`), and the path lives for the call.
        Self::done(unsafe {
            (self.calls.send_file)(self.exchange, text(path), path.len(), offset, len)
        })
    }

    fn serve(&mut self, path: &[u8]) -> Result<(), Refused> {
        // SAFETY: `exchange` belongs to these calls (`new`), and the path lives for the call.
        Self::done(unsafe { (self.calls.serve)(self.exchange, text(path), path.len()) })
    }

    fn log(&mut self, line: &str) {
        // SAFETY: `exchange` belongs to these calls (`new`), and the text lives for the call.
        unsafe { (self.calls.log)(self.exchange, text(line.as_bytes()), line.len()) }
    }
}

/// The setup of a server on the other side of the ABI.
#[derive(Debug)]
struct ForeignSetup<'a> {
    calls: &'a SetupCalls,
    setup: *mut c_void,
    options: Vec<(String, String)>,
}

impl<'a> ForeignSetup<'a> {
    /// # Safety
    /// `setup` is what the server gave with these calls, and this is used for that call only.
    unsafe fn new(calls: &'a SetupCalls, setup: *mut c_void) -> ForeignSetup<'a> {
        let mut options = Vec::new();
        let (mut key, mut value) = (Bytes::NONE, Bytes::NONE);
        // SAFETY: `setup` belongs to these calls, and both places live for the call.
        while unsafe { (calls.option)(setup, options.len(), &mut key, &mut value) } != 0 {
            // SAFETY: what is given out lives until `open` has returned.
            let [key, value] = [key, value].map(|text| unsafe { text.slice() }.unwrap_or_default());
            let owned = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
            options.push((owned(key), owned(value)));
        }
        ForeignSetup { calls, setup, options }
    }

    fn fail(&mut self, why: &str) {
        // SAFETY: `setup` belongs to these calls (`new`), and the text lives for the call.
        unsafe { (self.calls.fail)(self.setup, text(why.as_bytes()), why.len()) }
    }
}

impl Setup for ForeignSetup<'_> {
    fn options(&self) -> &[(String, String)] {
        &self.options
    }

    fn counters(&mut self, count: usize) -> Result<&'static [AtomicU64], String> {
        // SAFETY: `setup` belongs to these calls (`new`).
        let start = unsafe { (self.calls.counters)(self.setup, count) };
        if start.is_null() {
            return Err(format!("{count} counters cannot be had"));
        }
        // SAFETY: the server gives that many, aligned and for as long as the process lives, and
        // everybody sees them as atomics.
        Ok(unsafe { std::slice::from_raw_parts(start.cast(), count) })
    }
}
