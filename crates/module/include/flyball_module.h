/*
 * flyball_module.h: modules that answer requests within the server, version 1 of the ABI.
 *
 * A module is a shared object that exports one function, flyball_module_entry, which gives a table
 * of functions. Build it by
 *
 *     cc -shared -fPIC -I. -o hello.so hello.c
 *
 * and name it in the configuration:
 *
 *     [[site.module]]
 *     path = "/hello"
 *     library = "hello.so"
 *
 * Rules:
 *  - One instance answers all requests of a process. Where the architecture has threads, several
 *    of them call `answer` at the same time with the same instance.
 *  - `answer` must not block, unless the table has FLYBALL_BLOCKS or the setting `blocking` is on.
 *  - It runs on a stack that may be as small as 64 KiB.
 *  - With `load = "start"`, `open` runs once, in the master, with the rights that the server was
 *    started with, and must not start threads: workers are forked afterwards and have copies. With
 *    `load = "first-use"` each worker runs it, with the rights of a worker.
 *  - What a call gives out is valid until the next call that changes something, and never after
 *    `answer` has returned. Bytes are not terminated by a zero.
 *  - What returns an int and gives nothing out returns 0 when it is done, FLYBALL_MALFORMED,
 *    FLYBALL_TOO_LATE or FLYBALL_TOO_MUCH when it is not.
 */
#ifndef FLYBALL_MODULE_H
#define FLYBALL_MODULE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this ABI. A module of another is refused when the server starts. */
#define FLYBALL_MODULE_ABI 1u

/* Most bytes that one call of `answer` may write, and most files that it may send. */
#define FLYBALL_WRITTEN_MAX (16u << 20)
#define FLYBALL_FILES_MAX 16u

/* Longest wait, in milliseconds. */
#define FLYBALL_WAIT_MS_MAX 60000u

/* What `answer` returns. */
enum {
    FLYBALL_DONE = 0,    /* The answer is complete. */
    FLYBALL_BODY = 1,    /* Call again when there is more of the request body, or its end. */
    FLYBALL_ROOM = 2,    /* Call again when most of what was written has left. */
    FLYBALL_TIMER = 3,   /* Call again after the time that wait_ms was given. */
    FLYBALL_FAILED = -1  /* No answer: 500, or the end of the connection. */
};

/* Why something was not taken into an answer. */
enum {
    FLYBALL_MALFORMED = 1, /* No status, no name, no value, or the server's to write. */
    FLYBALL_TOO_LATE = 2,  /* The head has left. */
    FLYBALL_TOO_MUCH = 3   /* More than one call may write. */
};

/* Flags of a module. */
enum {
    FLYBALL_BLOCKS = 1 /* Its calls may block: they are made where that does no harm. */
};

/* Parts of a request. */
enum {
    FLYBALL_METHOD = 0,
    FLYBALL_TARGET = 1, /* As it was sent. */
    FLYBALL_PATH = 2,   /* Decoded except for %2F, without dot segments. */
    FLYBALL_BELOW = 3,  /* What of the path follows that of the module. */
    FLYBALL_QUERY = 4,  /* Without its question mark, as it was sent. */
    FLYBALL_ID = 5      /* A name that no other request of this server has. */
};

/* Bytes; `data` is null where there are none to give. */
typedef struct flyball_bytes {
    const uint8_t *data;
    size_t len;
} flyball_bytes;

typedef struct flyball_exchange flyball_exchange;
typedef struct flyball_setup flyball_setup;

/* What a module may call while it is made. */
typedef struct flyball_setup_calls {
    uint32_t abi;
    uint32_t size; /* Bytes of this table: a later server may know more calls. */
    /* The option of a number, counted from 0; returns 0 when there is none. */
    int (*option)(flyball_setup *setup, size_t index, flyball_bytes *key, flyball_bytes *value);
    /* Counters, zero at first, that all processes share if they are asked for with
     * `load = "start"`. To be used as atomics. Null when there are too many. */
    uint64_t *(*counters)(flyball_setup *setup, size_t count);
    /* Says why `open` fails. */
    void (*fail)(flyball_setup *setup, const char *why, size_t len);
} flyball_setup_calls;

/* What a module may call while it answers. */
typedef struct flyball_calls {
    uint32_t abi;
    uint32_t size; /* Bytes of this table: a later server may know more calls. */
    /* A part of the request. */
    flyball_bytes (*request)(flyball_exchange *x, uint32_t part);
    /* A field by its name, whatever its case. */
    flyball_bytes (*field)(flyball_exchange *x, const char *name, size_t len);
    /* A field by its number, counted from 0; returns 0 when there is none. */
    int (*field_at)(flyball_exchange *x, size_t index, flyball_bytes *name, flyball_bytes *value);
    /* A cookie by its name. */
    flyball_bytes (*cookie)(flyball_exchange *x, const char *name, size_t len);
    /* The client's address: returns 4 or 16, the number of bytes that it has, or 0 where it has
       none: it came over a Unix-domain socket. */
    int (*peer)(flyball_exchange *x, uint8_t (*address)[16]);
    /* The bytes of the request body that are there and were not taken. */
    flyball_bytes (*body)(flyball_exchange *x);
    /* Takes the first of them. */
    void (*take)(flyball_exchange *x, size_t n);
    /* Whether they are the last. */
    int (*body_ended)(flyball_exchange *x);
    /* Sets the status, 200 to 599. Without it the status is 200. */
    int (*set_status)(flyball_exchange *x, uint32_t code);
    /* Adds a field. Date, Server, Connection and the framing are the server's to write. */
    int (*add_field)(flyball_exchange *x, const char *name, size_t name_len, const char *value,
                     size_t value_len);
    /* Sets a cookie: strings; attributes such as "Path=/; HttpOnly", or null. */
    int (*set_cookie)(flyball_exchange *x, const char *name, const char *value,
                      const char *attributes);
    /* Appends to the content. */
    int (*write)(flyball_exchange *x, const void *bytes, size_t len);
    /* Appends a range of a file of the site, by the path of a request for it; a length of
     * UINT64_MAX is all that follows. Without such a range the answer is 404. */
    int (*send_file)(flyball_exchange *x, const char *path, size_t path_len, uint64_t offset,
                     uint64_t len);
    /* Leaves the answer to the site, as if the client had asked for this path. */
    int (*serve)(flyball_exchange *x, const char *path, size_t len);
    /* How long to wait with FLYBALL_TIMER. */
    void (*wait_ms)(flyball_exchange *x, uint64_t ms);
    /* Writes a line into the server's log. */
    void (*log)(flyball_exchange *x, const char *text, size_t len);
} flyball_calls;

/* A module. */
typedef struct flyball_module {
    uint32_t abi;      /* FLYBALL_MODULE_ABI */
    uint32_t size;     /* sizeof(flyball_module) */
    uint32_t flags;    /* Such as FLYBALL_BLOCKS. */
    uint32_t reserved; /* 0 */
    /* Makes the instance; returns 0 when it is made. May be null. */
    int (*open)(const flyball_setup_calls *calls, flyball_setup *setup, void **instance);
    /* Ends the instance. May be null. */
    void (*close)(void *instance);
    /* Answers a request. *pending is null at the first call; what a call that waits leaves there
     * is what the next one finds. */
    int (*answer)(void *instance, const flyball_calls *calls, flyball_exchange *x,
                  void **pending);
    /* Frees what a call left in *pending and that nobody goes on with. May be null. */
    void (*forget)(void *instance, void *pending);
} flyball_module;

/* What a module exports: gives its table for a server of this version, or null. */
const flyball_module *flyball_module_entry(uint32_t abi);

#ifdef __cplusplus
}
#endif

#endif
