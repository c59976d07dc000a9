/* The load generator of the AMQP door: one thread, AMQP 0-9-1 written by hand, one channel a connection.
 *
 *   amqp publish ADDRESS KEYS   KEY=VALUE...   publish persistent messages to `exchange`, the routing keys in turn, with confirms
 *   amqp consume ADDRESS QUEUES KEY=VALUE...   consume and acknowledge
 *   amqp both    ADDRESS QUEUES KEY=VALUE...   both at once: latency from when a message was due to its arrival
 *   amqp idle    ADDRESS -      KEY=VALUE...   open `connections`, each with a channel; say so, and wait for the end of standard input
 *
 * KEYS and QUEUES are names, separated by commas; a number in braces stands for so many names: `q{10}` is q0 to q9. Keys:
 *
 *   connections  that publish or are idle (1)       consumers   connections that consume (1); queue i belongs to the i-th, modulo
 *   size         bytes of a body, 8 or more (100)   seconds     length of the run (2)
 *   window       unconfirmed messages of a connection, at most (1000)
 *   exchange     where to publish (the default exchange)
 *   count        messages at most; in `consume` the messages that there are
 *   copies       deliveries of one message, for an exchange with several queues (1)
 *   prefetch     of each consumer (1000)            ack         1: each message; N: every N-th with multiple; 0: no_ack (100)
 *   rate         messages a second, 0: as fast as confirms come (0)
 *   samples      file: one int64 of nanoseconds for each message: to its confirm (publish) or its arrival (both)
 *
 * A run of `publish` ends when its time is over and everything is confirmed; one of `consume` when all messages, or those
 * that came in time, are acknowledged and the server has answered a method behind the last acknowledgement. `both` ends when
 * everything that was published has come. The result is one JSON object on standard output. A close by the server, a nack
 * and a missing message are errors: a server that refuses work must not look fast.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { NAMES_MAX = 4096, IN_BYTES = 1 << 20, OUT_BYTES = 1 << 18, FRAME_MAX = 131072, STALLED_S = 20 };
enum { PUBLISH, CONSUME, BOTH, IDLE };
static const char *const MODES[] = {"publish", "consume", "both", "idle"};
enum { START = 10 << 16 | 10, TUNE = 10 << 16 | 30, OPEN_OK = 10 << 16 | 41, CLOSE = 10 << 16 | 50, CHANNEL_OPEN_OK = 20 << 16 | 11,
       CHANNEL_CLOSE = 20 << 16 | 40, QOS_OK = 60 << 16 | 11, CONSUME_OK = 60 << 16 | 21, DELIVER = 60 << 16 | 60, ACK = 60 << 16 | 80,
       NACK = 60 << 16 | 120, CANCEL = 60 << 16 | 30, CONFIRM_OK = 85 << 16 | 11 };

typedef struct {
    int fd, publishes, asks_to_write;
    unsigned char *in, *out;
    size_t in_size, out_size, out_sent;
    uint64_t published, confirmed; /* Publishing: the numbers of the last message, and of the first that is not confirmed. */
    int64_t *due_ns;               /* By number, modulo the window; 0 when it is confirmed. */
    uint64_t delivered, acknowledged, left; /* Consuming: the last delivery tags; bytes of the body that are missing. */
    int64_t stamp_ns;
    int has_stamp, is_done;
} Connection;

static int mode, poller, timer;
static long publishers = 1, consumers = 1, size = 100, window = 1000, count_max = 1L << 62, copies = 1, prefetch = 1000, ack = 100;
static double seconds = 2.0, rate;
static const char *exchange = "", *samples_path;
static char *names[NAMES_MAX];
static int names_count;
static struct sockaddr_in server;
static unsigned char **contents; /* The frames of a message, by name; the time stamp is filled in. */
static size_t *contents_size, stamp_at;
static int64_t *samples;
static size_t samples_count, samples_room;
static uint64_t published, confirmed, delivered, next_name;
static int64_t began_ns, last_ns;
static Connection *all;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what, const char *why) {
    fprintf(stderr, "amqp: %s: %.1000s\n", what, why);
    exit(1);
}

static void keep(int64_t value) {
    if (!samples_path) return;
    if (samples_count == samples_room) {
        samples_room = samples_room ? samples_room * 2 : 65536;
        samples = realloc(samples, samples_room * sizeof *samples);
    }
    samples[samples_count++] = value;
}

/* ---- bytes ---- */

static uint32_t get32(const unsigned char *at) { return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]; }
static uint64_t get64(const unsigned char *at) { return (uint64_t)get32(at) << 32 | get32(at + 4); }
static unsigned char *put8(unsigned char *at, unsigned value) { return *at = (unsigned char)value, at + 1; }
static unsigned char *put16(unsigned char *at, unsigned value) { return put8(put8(at, value >> 8), value & 255); }
static unsigned char *put32(unsigned char *at, uint32_t value) { return put16(put16(at, value >> 16), value & 65535); }
static unsigned char *put64(unsigned char *at, uint64_t value) { return put32(put32(at, (uint32_t)(value >> 32)), (uint32_t)value); }
static unsigned char *put_short(unsigned char *at, const char *text) {
    size_t length = strlen(text);
    return mempcpy(put8(at, (unsigned)length), text, length);
}

/* A frame is begun, filled, and ended where its payload ends. */
static unsigned char *begin(unsigned char *at, int kind, int channel) { return put16(put8(at, (unsigned)kind), (unsigned)channel) + 4; }
static unsigned char *end(unsigned char *start, unsigned char *at) {
    put32(start + 3, (uint32_t)(at - start - 7));
    return put8(at, 206);
}

/* ---- sending ---- */

static void watch(Connection *c, int writes) {
    if (c->asks_to_write == writes) return;
    struct epoll_event event = {writes ? EPOLLIN | EPOLLOUT : EPOLLIN, {.ptr = c}};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event);
    c->asks_to_write = writes;
}

static void flush_out(Connection *c) {
    while (c->out_sent < c->out_size) {
        ssize_t wrote = send(c->fd, c->out + c->out_sent, c->out_size - c->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (wrote < 0 && errno == EAGAIN) return watch(c, 1);
        if (wrote < 0) die("send", strerror(errno));
        c->out_sent += (size_t)wrote;
    }
    c->out_size = c->out_sent = 0;
    watch(c, 0);
}

static size_t room(Connection *c) { return OUT_BYTES - c->out_size; }

static void put_ack(Connection *c, uint64_t tag, int multiple) {
    if (room(c) < 64) flush_out(c);
    if (room(c) < 64) die("send", "the server reads no acknowledgements");
    unsigned char *start = c->out + c->out_size, *at = put32(begin(start, 1, 1), ACK);
    at = end(start, put8(put64(at, tag), multiple ? 1 : 0));
    c->out_size = (size_t)(at - c->out);
}

static void publish(Connection *c, int64_t due_ns) {
    int which = (int)(next_name++ % (uint64_t)names_count);
    memcpy(c->out + c->out_size, contents[which], contents_size[which]);
    memcpy(c->out + c->out_size + contents_size[which] - stamp_at, &due_ns, 8);
    c->out_size += contents_size[which];
    c->due_ns[c->published++ % (uint64_t)window] = due_ns;
    published++;
}

static int may_publish(Connection *c) {
    return c->publishes && c->published - c->confirmed < (uint64_t)window && room(c) >= contents_size[0] + 64;
}

static int is_over(int64_t now) { return now - began_ns >= (int64_t)(seconds * 1e9) || published >= (uint64_t)count_max; }

/* Fill the window of a connection. */
static void publish_fast(Connection *c) {
    int64_t now = now_ns();
    while (!is_over(now) && may_publish(c)) {
        publish(c, now);
        if ((published & 15) == 0) now = now_ns();
    }
    flush_out(c);
}

/* Publish what is due; returns when the next message is. */
static int64_t publish_paced(void) {
    static int turn;
    int64_t now = now_ns();
    for (;;) {
        int64_t due = began_ns + (int64_t)((double)published / rate * 1e9);
        if (due - began_ns >= (int64_t)(seconds * 1e9) || published >= (uint64_t)count_max) return INT64_MAX;
        if (due > now) return due;
        int tried = 0;
        while (tried < publishers && !may_publish(&all[turn])) turn = (turn + 1) % (int)publishers, tried++;
        if (tried == publishers) return INT64_MAX; /* The window is full: a confirm goes on. What waits is late. */
        publish(&all[turn], due);
        turn = (turn + 1) % (int)publishers;
    }
}

/* ---- receiving ---- */

static void closed(const unsigned char *arguments) {
    char text[256] = "";
    memcpy(text, arguments + 3, arguments[2]);
    die("the server closed", text);
}

/* Servers may confirm out of order: everything below `confirmed` is, and above it what has no due time any more. */
static void confirm(Connection *c, uint64_t tag, int multiple) {
    int64_t now = now_ns();
    for (uint64_t number = multiple ? c->confirmed : tag - 1; number < tag; number++) {
        int64_t *due_ns = &c->due_ns[number % (uint64_t)window];
        if (!*due_ns) continue;
        if (mode == PUBLISH) keep(now - *due_ns);
        *due_ns = 0;
        confirmed++;
    }
    while (c->confirmed < c->published && !c->due_ns[c->confirmed % (uint64_t)window]) c->confirmed++;
    if (mode == PUBLISH) last_ns = now;
}

static void arrived(Connection *c) {
    int64_t now = now_ns();
    delivered++;
    last_ns = now;
    if (mode == BOTH && c->has_stamp) keep(now - c->stamp_ns);
    if (ack && (ack == 1 || c->delivered - c->acknowledged >= (uint64_t)ack)) {
        put_ack(c, c->delivered, ack > 1);
        c->acknowledged = c->delivered;
    }
}

static void take_method(Connection *c, const unsigned char *at) {
    uint32_t method = get32(at);
    at += 4;
    if (method == DELIVER) {
        at += 1 + at[0];
        c->delivered = get64(at);
        c->has_stamp = 0;
    } else if (method == ACK) confirm(c, get64(at), at[8] & 1);
    else if (method == NACK) die("publish", "the server refused a message");
    else if (method == CLOSE || method == CHANNEL_CLOSE) closed(at);
    else if (method == CANCEL) die("consume", "the server cancelled a consumer");
    else if (method == QOS_OK) c->is_done = 1, last_ns = now_ns();
    else die("unexpected", "method");
}

static void take_frames(Connection *c) {
    size_t at = 0;
    while (c->in_size - at >= 8) {
        const unsigned char *frame = c->in + at;
        size_t length = get32(frame + 3);
        if (c->in_size - at < length + 8) break;
        if (frame[0] == 1) take_method(c, frame + 7);
        else if (frame[0] == 2) {
            c->left = get64(frame + 11);
            if (!c->left) arrived(c);
        } else if (frame[0] == 3) {
            if (!c->has_stamp && length >= 8) memcpy(&c->stamp_ns, frame + 7, 8), c->has_stamp = 1;
            c->left -= length;
            if (!c->left) arrived(c);
        }
        at += length + 8;
    }
    if (at) memmove(c->in, c->in + at, c->in_size - at);
    c->in_size -= at;
}

static void readable(Connection *c) {
    ssize_t got = recv(c->fd, c->in + c->in_size, IN_BYTES - c->in_size, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) die("receive", got ? strerror(errno) : "the server closed the connection");
    c->in_size += (size_t)got;
    take_frames(c);
}

/* ---- opening ---- */

static void send_all(Connection *c) {
    for (size_t at = 0; at < c->out_size;) {
        ssize_t wrote = send(c->fd, c->out + at, c->out_size - at, MSG_NOSIGNAL);
        if (wrote < 0) die("send", strerror(errno));
        at += (size_t)wrote;
    }
    c->out_size = 0;
}

/* Wait for one method and forget it; what comes behind it stays in the buffer. */
static void expect(Connection *c, uint32_t method) {
    for (;;) {
        size_t length = c->in_size >= 8 ? get32(c->in + 3) : 0;
        if (c->in_size >= 8 && c->in_size >= length + 8) {
            uint32_t got = get32(c->in + 7);
            if (got == CLOSE || got == CHANNEL_CLOSE) closed(c->in + 11);
            if (got != method) die("handshake", "another method came than expected");
            memmove(c->in, c->in + length + 8, c->in_size - length - 8);
            c->in_size -= length + 8;
            return;
        }
        ssize_t read = recv(c->fd, c->in + c->in_size, IN_BYTES - c->in_size, 0);
        if (read <= 0) die("handshake", read ? strerror(errno) : "the server closed the connection");
        c->in_size += (size_t)read;
    }
}

static unsigned char *put_method(unsigned char *start, int channel, uint32_t method) { return put32(begin(start, 1, channel), method); }

static void send_frame(Connection *c, unsigned char *at) {
    c->out_size = (size_t)(end(c->out, at) - c->out);
    send_all(c);
}

static void open_connection(Connection *c, int heartbeat_s) {
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&server, sizeof server)) die("connect", strerror(errno));
    int one = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->out_size = 8;
    memcpy(c->out, "AMQP\0\0\x09\x01", 8);
    send_all(c);
    expect(c, START);
    unsigned char *at = put_method(c->out, 0, 10 << 16 | 11);
    at = put_short(put32(at, 0), "PLAIN");
    at = put_short(mempcpy(put32(at, 12), "\0guest\0guest", 12), "en_US");
    send_frame(c, at);
    expect(c, TUNE);
    at = put_method(c->out, 0, 10 << 16 | 31);
    send_frame(c, put16(put32(put16(at, 2047), FRAME_MAX), (unsigned)heartbeat_s));
    at = put_method(c->out, 0, 10 << 16 | 40);
    send_frame(c, put8(put8(put_short(at, "/"), 0), 0));
    expect(c, OPEN_OK);
    send_frame(c, put8(put_method(c->out, 1, 20 << 16 | 10), 0));
    expect(c, CHANNEL_OPEN_OK);
}

static void open_publisher(Connection *c) {
    c->publishes = 1;
    c->due_ns = calloc((size_t)window, sizeof *c->due_ns);
    send_frame(c, put8(put_method(c->out, 1, 85 << 16 | 10), 0));
    expect(c, CONFIRM_OK);
}

static void put_qos(Connection *c) {
    unsigned char *start = c->out + c->out_size, *at = put_method(start, 1, 60 << 16 | 10);
    at = end(start, put8(put16(put32(at, 0), (unsigned)prefetch), 0));
    c->out_size = (size_t)(at - c->out);
}

static void begin_consuming(Connection *c, int number) {
    put_qos(c);
    send_all(c);
    expect(c, QOS_OK);
    for (int i = number; i < names_count; i += (int)consumers) { /* Deliveries may come before the next answer: without waiting. */
        unsigned char *start = c->out + c->out_size, *at = put_method(start, 1, 60 << 16 | 20);
        char tag[16];
        sprintf(tag, "c%d", i);
        at = put_short(put_short(put16(at, 0), names[i]), tag);
        at = end(start, put32(put8(at, (ack ? 0 : 2) | 8), 0));
        c->out_size = (size_t)(at - c->out);
        if (room(c) < 512) send_all(c);
    }
    send_all(c);
}

static Connection *open_all(long count, int heartbeat_s) {
    Connection *opened = calloc((size_t)count, sizeof *opened);
    for (long i = 0; i < count; i++) {
        int is_small = mode == IDLE;
        opened[i].in = is_small && i ? opened[0].in : malloc(IN_BYTES);
        opened[i].out = is_small && i ? opened[0].out : malloc(OUT_BYTES);
        open_connection(&opened[i], heartbeat_s);
        struct epoll_event event = {EPOLLIN, {.ptr = &opened[i]}};
        if (!is_small) epoll_ctl(poller, EPOLL_CTL_ADD, opened[i].fd, &event);
    }
    return opened;
}

/* The frames of a message for each name; the body ends with the frame, so the time stamp is found from the end. */
static void prepare_contents(void) {
    contents = calloc((size_t)names_count, sizeof *contents);
    contents_size = calloc((size_t)names_count, sizeof *contents_size);
    stamp_at = (size_t)size + 1;
    for (int i = 0; i < names_count; i++) {
        unsigned char *start = contents[i] = malloc((size_t)size + 1024);
        const char *key = names[i];
        unsigned char *at = put_short(put_short(put16(put_method(start, 1, 60 << 16 | 40), 0), exchange), key);
        unsigned char *next = end(start, put8(at, 0));
        at = put64(put16(put16(begin(next, 2, 1), 60), 0), (uint64_t)size);
        at = end(next, put8(put16(at, 1 << 12), 2)); /* delivery-mode: persistent */
        next = at;
        at = begin(next, 3, 1);
        for (long k = 0; k < size; k++) *at++ = (unsigned char)('a' + (k * 7 + k / 26) % 26);
        contents_size[i] = (size_t)(end(next, at) - start);
    }
}

/* ---- the run ---- */

static int everything_came(int64_t now) {
    if (mode == PUBLISH) return is_over(now) && confirmed >= published;
    if (mode == BOTH) return is_over(now) && confirmed >= published && delivered >= published * (uint64_t)copies;
    return 0;
}

/* The end of `consume`: the last acknowledgements, and a method whose answer is awaited. */
static int finish_consuming(int64_t now) {
    static int is_asked;
    if (delivered < (uint64_t)count_max && now - began_ns < (int64_t)(seconds * 1e9)) return 0;
    int done = 1;
    for (long i = 0; i < consumers; i++) {
        Connection *c = &all[i];
        if (!is_asked) {
            if (ack && c->delivered > c->acknowledged) put_ack(c, c->delivered, 1);
            if (room(c) < 64) die("send", "the server reads no acknowledgements");
            put_qos(c);
            flush_out(c);
            c->acknowledged = UINT64_MAX; /* What still comes is not counted. */
        }
        done &= c->is_done;
    }
    is_asked = 1;
    return done;
}

static void arm(int64_t due_ns) {
    struct itimerspec when = {{0, 0}, {0, 0}};
    if (due_ns != INT64_MAX) when.it_value = (struct timespec){due_ns / 1000000000, due_ns % 1000000000};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void run_load(long connections) {
    struct epoll_event events[256], event = {EPOLLIN, {.ptr = NULL}};
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    epoll_ctl(poller, EPOLL_CTL_ADD, timer, &event);
    int64_t moved_ns = now_ns();
    uint64_t moved = 0;
    for (;;) {
        if (mode != CONSUME && rate > 0) arm(publish_paced());
        for (long i = 0; i < connections; i++) {
            if (all[i].publishes && rate <= 0) publish_fast(&all[i]);
            else flush_out(&all[i]);
        }
        int64_t now = now_ns();
        if (everything_came(now) || (mode == CONSUME && finish_consuming(now))) return;
        if (confirmed + delivered != moved) moved = confirmed + delivered, moved_ns = now;
        if (now - moved_ns > (int64_t)STALLED_S * 1000000000) die("stalled", "nothing came for 20 seconds");
        int ready = epoll_wait(poller, events, 256, 100);
        for (int i = 0; i < ready; i++) {
            Connection *c = events[i].data.ptr;
            uint64_t ticks;
            if (!c) {
                if (read(timer, &ticks, sizeof ticks) < 0) continue;
                continue;
            }
            if (events[i].events & EPOLLOUT) flush_out(c);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readable(c);
        }
    }
}

static void option(char *word) {
    char *value = strchr(word, '=');
    if (!value) die("not KEY=VALUE", word);
    *value++ = 0;
    if (!strcmp(word, "connections")) publishers = atol(value);
    else if (!strcmp(word, "consumers")) consumers = atol(value);
    else if (!strcmp(word, "size")) size = atol(value);
    else if (!strcmp(word, "seconds")) seconds = atof(value);
    else if (!strcmp(word, "window")) window = atol(value);
    else if (!strcmp(word, "exchange")) exchange = value;
    else if (!strcmp(word, "count")) count_max = atol(value);
    else if (!strcmp(word, "copies")) copies = atol(value);
    else if (!strcmp(word, "prefetch")) prefetch = atol(value);
    else if (!strcmp(word, "ack")) ack = atol(value);
    else if (!strcmp(word, "rate")) rate = atof(value);
    else if (!strcmp(word, "samples")) samples_path = value;
    else die("unknown key", word);
}

static void read_names(char *list) {
    for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
        char *brace = strchr(name, '{');
        long many = brace ? atol(brace + 1) : 1;
        if (brace) *brace = 0;
        for (long i = 0; i < many; i++) {
            if (names_count == NAMES_MAX) die("bounds", "too many names");
            names[names_count] = malloc(strlen(name) + 16);
            sprintf(names[names_count++], brace ? "%s%ld" : "%s", name, i);
        }
    }
}

static void wait_idle(void) {
    printf("{\"ready\": %ld}\n", publishers);
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {}
    exit(0);
}

int main(int count, char **args) {
    if (count < 4) die("usage", "see the head of amqp.c");
    for (mode = 0; mode <= IDLE && strcmp(args[1], MODES[mode]); mode++) {}
    if (mode > IDLE) die("unknown mode", args[1]);
    for (int i = 4; i < count; i++) option(args[i]);
    if (size < 8 || size > FRAME_MAX - 8 || (size_t)size + 2048 > OUT_BYTES) die("bounds", "the size of a body");
    char *colon = strrchr(args[2], ':');
    if (!colon) die("address", args[2]);
    *colon = 0;
    server.sin_family = AF_INET;
    server.sin_port = htons((uint16_t)atoi(colon + 1));
    if (inet_pton(AF_INET, args[2], &server.sin_addr) != 1) die("not an IPv4 address", args[2]);
    read_names(strdup(args[3]));
    poller = epoll_create1(0);
    long connections = mode == CONSUME ? consumers : mode == BOTH ? publishers + consumers : publishers;
    all = open_all(connections, mode == IDLE ? 60 : 0);
    if (mode == IDLE) wait_idle();
    prepare_contents();
    for (long i = 0; mode != CONSUME && i < publishers; i++) open_publisher(&all[i]);
    began_ns = last_ns = now_ns();
    for (long i = mode == BOTH ? publishers : 0; mode != PUBLISH && i < connections; i++)
        begin_consuming(&all[i], (int)(mode == BOTH ? i - publishers : i));
    if (mode == BOTH) began_ns = last_ns = now_ns();
    run_load(connections);
    if (samples_path) {
        FILE *file = fopen(samples_path, "wb");
        if (!file || fwrite(samples, sizeof *samples, samples_count, file) != samples_count || fclose(file)) die(samples_path, strerror(errno));
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    printf("{\"client\": \"amqp.c\", \"published\": %lu, \"delivered\": %lu, \"seconds\": %.6f, \"cpu_seconds\": %.6f}\n",
           (unsigned long)confirmed, (unsigned long)delivered, (double)(last_ns - began_ns) / 1e9, cpu);
    return 0;
}
