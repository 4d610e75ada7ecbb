/*
 * hello.c: a module in C. It says hello, and knows you again by a cookie; it echoes a body while
 * it comes, counts slowly, and sends a range of a file.
 *
 *     cc -shared -fPIC -I../../crates/module/include -o hello.so hello.c
 */
#include <flyball_module.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hello {
    char greeting[128];
};

/* Marks an echo that has begun. */
static int echoing;

/* How far a slow answer is. */
struct counting {
    int next;
};

static int text(const flyball_calls *calls, flyball_exchange *x)
{
    const char type[] = "Content-Type", plain[] = "text/plain; charset=utf-8";
    return calls->add_field(x, type, sizeof type - 1, plain, sizeof plain - 1);
}

static int is(flyball_bytes bytes, const char *word)
{
    return bytes.len == strlen(word) && memcmp(bytes.data, word, bytes.len) == 0;
}

static int greet(const struct hello *hello, const flyball_calls *calls, flyball_exchange *x)
{
    flyball_bytes name = calls->request(x, FLYBALL_QUERY);
    flyball_bytes seen = calls->cookie(x, "seen", 4);
    if (text(calls, x) != 0)
        return FLYBALL_FAILED;
    if (seen.data == NULL && calls->set_cookie(x, "seen", "yes", "Path=/; HttpOnly") != 0)
        return FLYBALL_FAILED;
    calls->write(x, hello->greeting, strlen(hello->greeting));
    calls->write(x, name.len ? ", " : "", name.len ? 2 : 0);
    /* A call that changes something ends what an earlier one gave out. */
    name = calls->request(x, FLYBALL_QUERY);
    calls->write(x, name.data, name.len);
    calls->write(x, seen.data ? " again\n" : "\n", seen.data ? 7 : 1);
    return FLYBALL_DONE;
}

/* Gives back what it is given, as it comes. */
static int echo(const flyball_calls *calls, flyball_exchange *x, void **pending)
{
    flyball_bytes body;
    if (*pending == NULL && text(calls, x) != 0)
        return FLYBALL_FAILED;
    *pending = &echoing;
    body = calls->body(x);
    if (calls->write(x, body.data, body.len) != 0)
        return FLYBALL_FAILED;
    calls->take(x, body.len);
    return calls->body_ended(x) ? FLYBALL_DONE : FLYBALL_BODY;
}

/* A line each 20 ms, five in all. */
static int count(const flyball_calls *calls, flyball_exchange *x, void **pending)
{
    struct counting *counting = *pending;
    char line[16];
    if (counting == NULL) {
        counting = calloc(1, sizeof *counting);
        if (counting == NULL || text(calls, x) != 0) {
            free(counting);
            return FLYBALL_FAILED;
        }
    }
    *pending = counting;
    snprintf(line, sizeof line, "%d\n", ++counting->next);
    calls->write(x, line, strlen(line));
    if (counting->next == 5) {
        free(counting);
        *pending = NULL;
        return FLYBALL_DONE;
    }
    calls->wait_ms(x, 20);
    return FLYBALL_TIMER;
}

static int answer(void *instance, const flyball_calls *calls, flyball_exchange *x, void **pending)
{
    flyball_bytes below = calls->request(x, FLYBALL_BELOW);
    if (is(below, "/echo"))
        return echo(calls, x, pending);
    if (is(below, "/count"))
        return count(calls, x, pending);
    if (is(below, "/part")) {
        calls->write(x, "<", 1);
        if (calls->send_file(x, "/index.html", 11, 1, 8) != 0)
            return FLYBALL_FAILED;
        calls->write(x, ">\n", 2);
        return FLYBALL_DONE;
    }
    if (is(below, "/file"))
        return calls->serve(x, "/index.html", 11) == 0 ? FLYBALL_DONE : FLYBALL_FAILED;
    if (is(below, "/abort"))
        abort();
    return greet(instance, calls, x);
}

static void forget(void *instance, void *pending)
{
    (void)instance;
    if (pending != &echoing)
        free(pending);
}

static int open_hello(const flyball_setup_calls *calls, flyball_setup *setup, void **instance)
{
    struct hello *hello = calloc(1, sizeof *hello);
    flyball_bytes key, value;
    size_t i;
    if (hello == NULL)
        return 1;
    strcpy(hello->greeting, "hello");
    for (i = 0; calls->option(setup, i, &key, &value); i++) {
        if (!is(key, "greeting") || value.len >= sizeof hello->greeting) {
            const char why[] = "its only option is a short greeting";
            calls->fail(setup, why, sizeof why - 1);
            free(hello);
            return 1;
        }
        memcpy(hello->greeting, value.data, value.len);
        hello->greeting[value.len] = 0;
    }
    *instance = hello;
    return 0;
}

static void close_hello(void *instance)
{
    free(instance);
}

static const flyball_module hello = {
    .abi = FLYBALL_MODULE_ABI,
    .size = sizeof(flyball_module),
    .open = open_hello,
    .close = close_hello,
    .answer = answer,
    .forget = forget,
};

const flyball_module *flyball_module_entry(uint32_t abi)
{
    return abi == FLYBALL_MODULE_ABI ? &hello : NULL;
}
