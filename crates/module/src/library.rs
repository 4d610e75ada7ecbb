//! The side of the server: a shared object, from the trait to the C ABI.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fmt;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use crate::abi::{
    ABI, Bytes, COUNTERS_MAX, Calls, ENTRY, Entry, ModuleTable, SetupCalls, WAIT_MS_MAX, flag,
    part, turn,
};
use crate::exchange::{Exchange, Refused};
use crate::module::{Module, Pending, Setup, Turn, Wake};

/// What happens to a process whose module has panicked, if the module's side caught that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPanic {
    /// The request is answered with 500, and the process goes on.
    #[default]
    Answer,
    /// The process ends, and is started again: what the module left half done is gone.
    Abort,
}

/// A shared object that is in memory, and whose version is right. It stays there as long as the
/// process: what its code has left behind, such as threads, may need it.
#[derive(Clone, Copy)]
pub struct Library {
    table: &'static ModuleTable,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("blocks", &self.blocks()).finish()
    }
}

impl Library {
    /// Brings a shared object into memory, with what it depends on. Blocks on the disk. Its
    /// constructors run: naming it is trusting it.
    ///
    /// # Errors
    /// Why there is none, or none of this version of the ABI.
    pub fn load(path: &Path) -> Result<Library, String> {
        if cfg!(target_feature = "crt-static") {
            return Err("a statically linked server cannot load modules".into());
        }
        let shown = path.display();
        let name =
            CString::new(path.as_os_str().as_bytes()).map_err(|_| format!("{shown} is no path"))?;
        // A name without a slash would be looked for in the directories of the system.
        let metadata = std::fs::metadata(path).map_err(|error| format!("{shown}: {error}"))?;
        if !path.is_absolute() || !metadata.is_file() {
            return Err(format!("{shown} is not the absolute path of a file"));
        }
        // SAFETY: the path is a string; the constructors of the object are trusted as it is.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(error().unwrap_or_else(|| format!("{shown} cannot be loaded")));
        }
        let entry = CString::new(ENTRY).unwrap_or_default();
        // SAFETY: the handle was opened above, and the name is a string.
        let symbol = unsafe { libc::dlsym(handle, entry.as_ptr()) };
        if symbol.is_null() {
            return Err(format!("{shown} is no module: it has no symbol {ENTRY}"));
        }
        // SAFETY: a symbol of this name is a function of this type, as flyball_module.h says.
        let entry: Entry = unsafe { std::mem::transmute::<*mut c_void, Entry>(symbol) };
        // SAFETY: the function may be called at any time, with any version.
        let table = unsafe { entry(ABI) };
        // SAFETY: it gives null or a table that lives as long as the object, which is not closed;
        // every version of it begins with its version and its size.
        let head = unsafe { table.cast::<[u32; 2]>().as_ref() };
        match head {
            None => Err(format!("{shown} has no module for version {ABI} of the ABI")),
            Some([abi, _]) if *abi != ABI => {
                Err(format!("{shown} is for version {abi} of the ABI, and this server has {ABI}"))
            }
            Some([_, size]) if (*size as usize) < size_of::<ModuleTable>() => {
                Err(format!("{shown} has a table of {size} bytes, which is too short"))
            }
            // SAFETY: as above, and it is as long as it must be.
            Some(_) => match unsafe { &*table } {
                ModuleTable { answer: None, .. } => Err(format!("{shown} has no answer function")),
                table => Ok(Library { table }),
            },
        }
    }

    /// Whether the module says that its calls may block.
    pub fn blocks(&self) -> bool {
        self.table.flags & flag::BLOCKS != 0
    }

    /// Makes an instance.
    ///
    /// # Errors
    /// What the module says, or that it says nothing.
    pub fn open(
        &self,
        setup: &mut dyn Setup,
        on_panic: OnPanic,
    ) -> Result<Box<dyn Module>, String> {
        let mut instance = std::ptr::null_mut();
        if let Some(open) = self.table.open {
            let mut opening = Opening { setup, why: None };
            let context = (&raw mut opening).cast();
            // SAFETY: the calls take this context, and both live for the call.
            let result = unsafe { open(&SETUP_CALLS, context, &mut instance) };
            if result != 0 {
                let unsaid = || format!("its initialiser returned {result} and did not say why");
                return Err(opening.why.unwrap_or_else(unsaid));
            }
        }
        let Some(answer) = self.table.answer else { return Err("it has no answer".into()) };
        Ok(Box::new(Loaded(Arc::new(Instance { table: self.table, answer, instance, on_panic }))))
    }
}

/// What the dynamic linker says of its last failure.
fn error() -> Option<String> {
    // SAFETY: it gives null or a string that lives until the next call of this thread.
    let text = unsafe { libc::dlerror() };
    // SAFETY: as above, and it is copied at once.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

type Answer =
    unsafe extern "C" fn(*mut c_void, *const Calls, *mut c_void, *mut *mut c_void) -> c_int;

struct Instance {
    table: &'static ModuleTable,
    answer: Answer,
    instance: *mut c_void,
    on_panic: OnPanic,
}

// SAFETY: the header says that an instance is used by several threads.
unsafe impl Send for Instance {}
// SAFETY: as above, and at the same time.
unsafe impl Sync for Instance {}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(close) = self.table.close {
            // SAFETY: `open` made it, and with the last reference its use has ended.
            unsafe { close(self.instance) }
        }
    }
}

/// A module of a shared object.
struct Loaded(Arc<Instance>);

/// What a module has left to go on with.
struct Rest {
    instance: Arc<Instance>,
    pending: *mut c_void,
}

// SAFETY: the header says that an answer may go on in another thread than it began in.
unsafe impl Send for Rest {}

impl Drop for Rest {
    fn drop(&mut self) {
        if !self.pending.is_null()
            && let Some(forget) = self.instance.table.forget
        {
            // SAFETY: the module left it here, and it is not continued.
            unsafe { forget(self.instance.instance, self.pending) }
        }
    }
}

impl Module for Loaded {
    fn answer(&self, exchange: &mut dyn Exchange) -> Turn {
        call(&self.0, std::ptr::null_mut(), exchange)
    }
}

impl Pending for Rest {
    fn go_on(mut self: Box<Self>, exchange: &mut dyn Exchange) -> Turn {
        let pending = std::mem::replace(&mut self.pending, std::ptr::null_mut());
        call(&self.instance, pending, exchange)
    }
}

/// What the calls of a module are given.
struct Context<'a> {
    exchange: &'a mut dyn Exchange,
    wait_ms: u64,
}

fn call(instance: &Arc<Instance>, mut pending: *mut c_void, exchange: &mut dyn Exchange) -> Turn {
    let mut context = Context { exchange, wait_ms: 0 };
    let opaque = (&raw mut context).cast();
    // SAFETY: the calls take this context, and all of it lives for the call.
    let result = unsafe { (instance.answer)(instance.instance, &CALLS, opaque, &mut pending) };
    let wake = match result {
        turn::BODY => Some(Wake::Body),
        turn::ROOM => Some(Wake::Room),
        turn::TIMER => Some(Wake::After(context.wait_ms)),
        _ => None,
    };
    // Whatever it has left is freed if it is not continued.
    let rest = Rest { instance: Arc::clone(instance), pending };
    match (result, wake) {
        (_, Some(wake)) => Turn::Wait(wake, Box::new(rest)),
        (turn::DONE, None) => Turn::Done,
        (turn::PANICKED, None) if instance.on_panic == OnPanic::Abort => std::process::abort(),
        (turn::PANICKED, None) => {
            context.exchange.log("it panicked");
            Turn::Failed
        }
        _ => Turn::Failed,
    }
}

/// # Safety
/// `exchange` is the context of the call under way, and nothing of it that was given out is used
/// any more if this is to change it.
unsafe fn of<'a>(exchange: *mut c_void) -> &'a mut Context<'a> {
    // SAFETY: `call` made it of a context that lives longer than the call.
    unsafe { &mut *exchange.cast() }
}

/// # Safety
/// `data` is null, or points to `len` bytes that live for the call.
unsafe fn bytes<'a>(data: *const c_char, len: usize) -> &'a [u8] {
    // SAFETY: the caller says so.
    unsafe { Bytes { data: data.cast(), len }.slice() }.unwrap_or_default()
}

fn code(result: Result<(), Refused>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(Refused::Malformed) => 1,
        Err(Refused::TooLate) => 2,
        Err(Refused::TooMuch) => 3,
    }
}

fn optional(value: Option<&[u8]>) -> Bytes {
    value.map_or(Bytes::NONE, Bytes::of)
}

static CALLS: Calls = Calls {
    abi: ABI,
    size: size_of::<Calls>() as u32,
    request,
    field,
    field_at,
    cookie,
    peer,
    body,
    take,
    body_ended,
    set_status,
    add_field,
    set_cookie,
    write,
    send_file,
    serve,
    wait_ms,
    log,
};

unsafe extern "C" fn request(exchange: *mut c_void, what: u32) -> Bytes {
    // SAFETY: the module gives the context that it was given.
    let exchange = unsafe { &mut *of(exchange).exchange };
    match what {
        part::METHOD => Bytes::of(exchange.method()),
        part::TARGET => Bytes::of(exchange.target()),
        part::PATH => Bytes::of(exchange.path()),
        part::BELOW => Bytes::of(exchange.below()),
        part::QUERY => Bytes::of(exchange.query()),
        part::ID => Bytes::of(exchange.id().as_bytes()),
        _ => Bytes::NONE,
    }
}

unsafe extern "C" fn field(exchange: *mut c_void, name: *const c_char, len: usize) -> Bytes {
    // SAFETY: the module gives the context that it was given, and a name of that length.
    let (exchange, name) = unsafe { (&*of(exchange).exchange, bytes(name, len)) };
    optional(exchange.field(name))
}

unsafe extern "C" fn field_at(
    exchange: *mut c_void,
    index: usize,
    name: *mut Bytes,
    value: *mut Bytes,
) -> c_int {
    // SAFETY: the module gives the context that it was given.
    let exchange = unsafe { &*of(exchange).exchange };
    let Some((found_name, found_value)) = exchange.field_at(index) else { return 0 };
    // SAFETY: both are places for what is found.
    unsafe { (*name, *value) = (Bytes::of(found_name), Bytes::of(found_value)) };
    1
}

unsafe extern "C" fn cookie(exchange: *mut c_void, name: *const c_char, len: usize) -> Bytes {
    // SAFETY: the module gives the context that it was given, and a name of that length.
    let (exchange, name) = unsafe { (&*of(exchange).exchange, bytes(name, len)) };
    optional(exchange.cookie(name))
}

unsafe extern "C" fn peer(exchange: *mut c_void, address: *mut [u8; 16]) -> c_int {
    // SAFETY: the module gives the context that it was given, and a place of 16 bytes.
    let (exchange, address) = unsafe { (&*of(exchange).exchange, &mut *address) };
    match exchange.peer() {
        Some(IpAddr::V4(v4)) => {
            address[..4].copy_from_slice(&v4.octets());
            4
        }
        Some(IpAddr::V6(v6)) => {
            *address = v6.octets();
            16
        }
        None => 0,
    }
}

unsafe extern "C" fn body(exchange: *mut c_void) -> Bytes {
    // SAFETY: the module gives the context that it was given.
    Bytes::of(unsafe { &*of(exchange).exchange }.body())
}

unsafe extern "C" fn take(exchange: *mut c_void, n: usize) {
    // SAFETY: the module gives the context that it was given.
    unsafe { &mut *of(exchange).exchange }.take(n);
}

unsafe extern "C" fn body_ended(exchange: *mut c_void) -> c_int {
    // SAFETY: the module gives the context that it was given.
    c_int::from(unsafe { &*of(exchange).exchange }.body_ended())
}

unsafe extern "C" fn set_status(exchange: *mut c_void, status: u32) -> c_int {
    let status = u16::try_from(status).map_err(|_| Refused::Malformed);
    // SAFETY: the module gives the context that it was given.
    let exchange = unsafe { &mut *of(exchange).exchange };
    code(status.and_then(|status| exchange.set_status(status)))
}

unsafe extern "C" fn add_field(
    exchange: *mut c_void,
    name: *const c_char,
    name_len: usize,
    value: *const c_char,
    value_len: usize,
) -> c_int {
    // SAFETY: the module gives the context that it was given, and texts of these lengths.
    let (name, value) = unsafe { (bytes(name, name_len), bytes(value, value_len)) };
    // SAFETY: as above.
    code(unsafe { &mut *of(exchange).exchange }.add_field(name, value))
}

unsafe extern "C" fn set_cookie(
    exchange: *mut c_void,
    name: *const c_char,
    value: *const c_char,
    attributes: *const c_char,
) -> c_int {
    let text = |text: *const c_char| match text.is_null() {
        true => b"".as_slice(),
        // SAFETY: the module gives null or a string that lives for the call.
        false => unsafe { CStr::from_ptr(text) }.to_bytes(),
    };
    let (name, value, attributes) = (text(name), text(value), text(attributes));
    // SAFETY: the module gives the context that it was given.
    code(unsafe { &mut *of(exchange).exchange }.set_cookie(name, value, attributes))
}

unsafe extern "C" fn write(exchange: *mut c_void, data: *const c_void, len: usize) -> c_int {
    // SAFETY: the module gives the context that it was given, and that many bytes.
    let (exchange, data) = unsafe { (&mut *of(exchange).exchange, bytes(data.cast(), len)) };
    code(exchange.write(data))
}

unsafe extern "C" fn send_file(
    exchange: *mut c_void,
    path: *const c_char,
    path_len: usize,
    offset: u64,
    len: u64,
) -> c_int {
    // SAFETY: the module gives the context that it was given, and a path of that length.
    let (exchange, path) = unsafe { (&mut *of(exchange).exchange, bytes(path, path_len)) };
    code(exchange.send_file(path, offset, (len != u64::MAX).then_some(len)))
}

unsafe extern "C" fn serve(exchange: *mut c_void, path: *const c_char, len: usize) -> c_int {
    // SAFETY: the module gives the context that it was given, and a path of that length.
    let (exchange, path) = unsafe { (&mut *of(exchange).exchange, bytes(path, len)) };
    code(exchange.serve(path))
}

unsafe extern "C" fn wait_ms(exchange: *mut c_void, ms: u64) {
    // SAFETY: the module gives the context that it was given.
    unsafe { of(exchange) }.wait_ms = ms.min(WAIT_MS_MAX);
}

unsafe extern "C" fn log(exchange: *mut c_void, text: *const c_char, len: usize) {
    // SAFETY: the module gives the context that it was given, and a text of that length.
    let (exchange, text) = unsafe { (&mut *of(exchange).exchange, bytes(text, len)) };
    exchange.log(&String::from_utf8_lossy(text));
}

/// What an initialiser's calls are given.
struct Opening<'a> {
    setup: &'a mut dyn Setup,
    why: Option<String>,
}

/// # Safety
/// `setup` is the context of the initialiser that runs.
unsafe fn opening<'a>(setup: *mut c_void) -> &'a mut Opening<'a> {
    // SAFETY: `Library::open` made it of one that lives longer than the call.
    unsafe { &mut *setup.cast() }
}

static SETUP_CALLS: SetupCalls =
    SetupCalls { abi: ABI, size: size_of::<SetupCalls>() as u32, option, counters, fail };

unsafe extern "C" fn option(
    setup: *mut c_void,
    index: usize,
    key: *mut Bytes,
    value: *mut Bytes,
) -> c_int {
    // SAFETY: the module gives the context that it was given.
    let setup = unsafe { &*opening(setup).setup };
    let Some((found_key, found_value)) = setup.options().get(index) else { return 0 };
    // SAFETY: both are places for what is found.
    unsafe {
        (*key, *value) = (Bytes::of(found_key.as_bytes()), Bytes::of(found_value.as_bytes()))
    };
    1
}

unsafe extern "C" fn counters(setup: *mut c_void, count: usize) -> *mut u64 {
    // SAFETY: the module gives the context that it was given.
    let setup = unsafe { &mut *opening(setup).setup };
    match setup.counters(count.min(COUNTERS_MAX + 1)) {
        // Atomics may be written through a shared reference, and this points into their cells.
        Ok(counters) => counters.as_ptr().cast_mut().cast(),
        Err(_) => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn fail(setup: *mut c_void, why: *const c_char, len: usize) {
    // SAFETY: the module gives the context that it was given, and a text of that length.
    let (setup, why) = unsafe { (opening(setup), bytes(why, len)) };
    setup.why = Some(OsStr::from_bytes(why).to_string_lossy().into_owned());
}
