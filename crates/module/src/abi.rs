//! The C ABI of modules, as `include/flyball_module.h` has it: version 1.
//!
//! A shared object exports one function, [`ENTRY`], which gives its [`ModuleTable`]. The server
//! gives each call the [`Calls`] by which a module reads the request and writes the answer. Both
//! tables begin with the version and with their size: a later server of the same version may know
//! more calls, and a module sees by the size whether they are there.

use std::ffi::{c_char, c_int, c_void};

/// The version of this ABI. A module of another is refused.
pub const ABI: u32 = 1;

/// The symbol that a module exports: a function of the type [`Entry`].
pub const ENTRY: &str = "flyball_module_entry";

/// Most bytes that one call may write.
pub const WRITTEN_MAX: usize = 16 << 20;

/// Most files that one call may send.
pub const FILES_MAX: usize = 16;

/// Longest wait, in milliseconds.
pub const WAIT_MS_MAX: u64 = 60_000;

/// Most counters that a module may have.
pub const COUNTERS_MAX: usize = 65_536;

/// Gives the table of a module for a server of this version of the ABI.
pub type Entry = unsafe extern "C" fn(abi: u32) -> *const ModuleTable;

/// Bytes that belong to the side that passes them. `data` is null where there are none to give.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// The first.
    pub data: *const u8,
    /// How many.
    pub len: usize,
}

impl Bytes {
    /// Nothing.
    pub const NONE: Bytes = Bytes { data: std::ptr::null(), len: 0 };

    /// These bytes, for as long as they live.
    pub fn of(bytes: &[u8]) -> Bytes {
        Bytes { data: bytes.as_ptr(), len: bytes.len() }
    }

    /// The bytes; `None` where there are none to give.
    ///
    /// # Safety
    /// `data` is null, or points to `len` bytes that live and do not change for `'a`.
    pub unsafe fn slice<'a>(self) -> Option<&'a [u8]> {
        // SAFETY: the caller says so.
        (!self.data.is_null()).then(|| unsafe { std::slice::from_raw_parts(self.data, self.len) })
    }
}

/// What a call of `answer` gives back.
pub mod turn {
    /// The answer is complete.
    pub const DONE: i32 = 0;
    /// Call again when there is more of the request body, or when it has ended.
    pub const BODY: i32 = 1;
    /// Call again when most of what was written has left.
    pub const ROOM: i32 = 2;
    /// Call again after the time that `wait_ms` was given.
    pub const TIMER: i32 = 3;
    /// There will be no answer.
    pub const FAILED: i32 = -1;
    /// The module has panicked, and this was caught.
    pub const PANICKED: i32 = -2;
}

/// What [`Calls::request`] can tell.
pub mod part {
    /// The method.
    pub const METHOD: u32 = 0;
    /// The target as it was sent.
    pub const TARGET: u32 = 1;
    /// The path, decoded except for `%2F`.
    pub const PATH: u32 = 2;
    /// What of the path follows that of the module.
    pub const BELOW: u32 = 3;
    /// The query.
    pub const QUERY: u32 = 4;
    /// The name of the request.
    pub const ID: u32 = 5;
}

/// Flags of a module.
pub mod flag {
    /// Its calls may block.
    pub const BLOCKS: u32 = 1;
}

/// What a module exports.
#[repr(C)]
#[derive(Debug)]
pub struct ModuleTable {
    /// [`ABI`].
    pub abi: u32,
    /// Bytes of this table.
    pub size: u32,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// Makes the instance; 0 when it is made. May be null.
    pub open: Option<
        unsafe extern "C" fn(
            calls: *const SetupCalls,
            setup: *mut c_void,
            instance: *mut *mut c_void,
        ) -> c_int,
    >,
    /// Ends the instance. May be null.
    pub close: Option<unsafe extern "C" fn(instance: *mut c_void)>,
    /// Answers a request, or goes on with `*pending`, which is null at the first call.
    pub answer: Option<
        unsafe extern "C" fn(
            instance: *mut c_void,
            calls: *const Calls,
            exchange: *mut c_void,
            pending: *mut *mut c_void,
        ) -> c_int,
    >,
    /// Frees what a call left in `*pending`, once it is not continued. May be null.
    pub forget: Option<unsafe extern "C" fn(instance: *mut c_void, pending: *mut c_void)>,
}

/// What a module may call while it is made.
#[repr(C)]
#[derive(Debug)]
pub struct SetupCalls {
    /// [`ABI`].
    pub abi: u32,
    /// Bytes of this table.
    pub size: u32,
    /// The option of a number, counted from 0; 0 when there is none.
    pub option: unsafe extern "C" fn(
        setup: *mut c_void,
        index: usize,
        key: *mut Bytes,
        value: *mut Bytes,
    ) -> c_int,
    /// Counters that all processes share; null when there are too many.
    pub counters: unsafe extern "C" fn(setup: *mut c_void, count: usize) -> *mut u64,
    /// Says why the instance is not made.
    pub fail: unsafe extern "C" fn(setup: *mut c_void, why: *const c_char, len: usize),
}

/// What a module may call while it answers. What returns a number returns 0 when it is done.
#[repr(C)]
#[derive(Debug)]
pub struct Calls {
    /// [`ABI`].
    pub abi: u32,
    /// Bytes of this table.
    pub size: u32,
    /// A part of the request, by its number in [`part`].
    pub request: unsafe extern "C" fn(exchange: *mut c_void, part: u32) -> Bytes,
    /// A field by its name.
    pub field:
        unsafe extern "C" fn(exchange: *mut c_void, name: *const c_char, len: usize) -> Bytes,
    /// A field by its number; 0 when there is none.
    pub field_at: unsafe extern "C" fn(
        exchange: *mut c_void,
        index: usize,
        name: *mut Bytes,
        value: *mut Bytes,
    ) -> c_int,
    /// A cookie by its name.
    pub cookie:
        unsafe extern "C" fn(exchange: *mut c_void, name: *const c_char, len: usize) -> Bytes,
    /// The client's address, in the 4 or 16 bytes whose number is returned; 0 where it has none.
    pub peer: unsafe extern "C" fn(exchange: *mut c_void, address: *mut [u8; 16]) -> c_int,
    /// The bytes of the request body that are there.
    pub body: unsafe extern "C" fn(exchange: *mut c_void) -> Bytes,
    /// Takes the first of them.
    pub take: unsafe extern "C" fn(exchange: *mut c_void, n: usize),
    /// Whether they are the last.
    pub body_ended: unsafe extern "C" fn(exchange: *mut c_void) -> c_int,
    /// Sets the status.
    pub set_status: unsafe extern "C" fn(exchange: *mut c_void, code: u32) -> c_int,
    /// Adds a field.
    pub add_field: unsafe extern "C" fn(
        exchange: *mut c_void,
        name: *const c_char,
        name_len: usize,
        value: *const c_char,
        value_len: usize,
    ) -> c_int,
    /// Sets a cookie; `attributes` may be null.
    pub set_cookie: unsafe extern "C" fn(
        exchange: *mut c_void,
        name: *const c_char,
        value: *const c_char,
        attributes: *const c_char,
    ) -> c_int,
    /// Appends to the content.
    pub write:
        unsafe extern "C" fn(exchange: *mut c_void, bytes: *const c_void, len: usize) -> c_int,
    /// Appends a range of a file; `len` of `UINT64_MAX` is all that follows.
    pub send_file: unsafe extern "C" fn(
        exchange: *mut c_void,
        path: *const c_char,
        path_len: usize,
        offset: u64,
        len: u64,
    ) -> c_int,
    /// Leaves the answer to the site.
    pub serve:
        unsafe extern "C" fn(exchange: *mut c_void, path: *const c_char, len: usize) -> c_int,
    /// How long to wait with [`turn::TIMER`].
    pub wait_ms: unsafe extern "C" fn(exchange: *mut c_void, ms: u64),
    /// Writes a line into the log.
    pub log: unsafe extern "C" fn(exchange: *mut c_void, text: *const c_char, len: usize),
}
