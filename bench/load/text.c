/* The load generator of protocols that are text: one thread, one connection, NATS, Redis and STOMP written by hand.
 *
 *   text PROTOCOL publish ADDRESS NAMES KEY=VALUE...   publish to the names in turn; the server confirms each message
 *   text PROTOCOL consume ADDRESS NAMES KEY=VALUE...   take and acknowledge what is there
 *
 *   nats    NAMES are the subjects of a stream; the name to consume is the subject that a push consumer delivers to
 *   redis   NAMES are streams; the group `bench` consumes them, with `window` divided by `ack` reads under way
 *   stomp   NAMES are destinations; each message is persistent and asks for a receipt
 *
 *   size     bytes of a body (100)               seconds  length of the run (2)
 *   window   unconfirmed messages (1000)         count    messages that there are (consume)
 *   ack      acknowledge N messages at a time (100)
 *   samples  file: one int64 of nanoseconds for each message, to its confirmation (publish)
 *
 * The result is one JSON object on standard output, as that of amqp.c. An error of the server ends the run.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { NAMES_MAX = 64, IN_BYTES = 1 << 22, OUT_BYTES = 1 << 18, HEAD_BYTES = 512, TOKEN_BYTES = 256, STALLED_S = 20 };

static long size = 100, window = 1000, count_max = 1L << 62, ack = 100;
static double seconds = 2.0;
static const char *samples_path;
static char *names[NAMES_MAX], in[IN_BYTES + 1], out[OUT_BYTES];
static size_t in_size, out_size;
static int names_count, fd, consumes, is_answered;
static int64_t *due_ns, *samples, began_ns, last_ns;
static uint64_t published, confirmed, delivered;
static char *body;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what, const char *why) {
    fprintf(stderr, "text: %s: %.1000s\n", what, why);
    exit(1);
}

/* ---- sending ---- */

static void flush_out(void) {
    size_t sent = 0;
    while (sent < out_size) {
        ssize_t wrote = send(fd, out + sent, out_size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (wrote < 0 && errno != EAGAIN) die("send", strerror(errno));
        if (wrote < 0) break;
        sent += (size_t)wrote;
    }
    memmove(out, out + sent, out_size - sent);
    out_size -= sent;
}

#define PUT(...) (out_size += (size_t)snprintf(out + out_size, OUT_BYTES - out_size, __VA_ARGS__))

static void put_body(const char *end, size_t end_size) {
    memcpy(out + out_size, body, (size_t)size);
    memcpy(out + out_size + size, end, end_size);
    out_size += (size_t)size + end_size;
}

/* ---- what came ---- */

static void confirm(uint64_t number) {
    last_ns = now_ns();
    if (samples_path) samples[confirmed % (1 << 22)] = last_ns - due_ns[number % (uint64_t)(window * 2)];
    confirmed++;
}

/* True if the messages up to this one are to be acknowledged. */
static int arrived(void) {
    delivered++;
    last_ns = now_ns();
    return delivered % (uint64_t)ack == 0 || delivered == (uint64_t)count_max;
}

static int is_last(void) { return delivered == (uint64_t)count_max; }

static void answered(void) { is_answered = 1, last_ns = now_ns(); }

/* A number or a word behind a name in the head of a frame. */
static const char *header(const char *head, const char *name) {
    const char *at = strstr(head, name);
    return at ? at + strlen(name) : NULL;
}

/* ---- the protocols: each takes one frame, and returns where the next one begins, or NULL if it is not whole ---- */

static void nats_open(void) { PUT("CONNECT {\"verbose\":false,\"pedantic\":false,\"tls_required\":false}\r\nSUB %s 1\r\n", consumes ? names[0] : "acks.*"); }

static void nats_put(const char *name, uint64_t number) {
    PUT("PUB %s acks.%lu %ld\r\n", name, (unsigned long)number, size);
    put_body("\r\n", 2);
}

/* MSG <subject> <sid> [reply] <bytes>\r\n<payload>\r\n */
static char *nats_take(char *at, char *end) {
    char *line = memmem(at, (size_t)(end - at), "\r\n", 2);
    if (!line) return NULL;
    if (!strncmp(at, "-ERR", 4)) *line = 0, die("refused", at);
    if (!strncmp(at, "PING", 4)) PUT("PONG\r\n");
    if (!strncmp(at, "PONG", 4)) answered();
    if (strncmp(at, "MSG ", 4)) return line + 2;
    char head[HEAD_BYTES];
    size_t length = (size_t)(line - at) < sizeof head - 1 ? (size_t)(line - at) : sizeof head - 1;
    memcpy(head, at, length);
    head[length] = 0;
    char *words[5], *rest = head;
    int count = 0;
    for (char *word; count < 5 && (word = strsep(&rest, " "));) words[count++] = word;
    size_t bytes = strtoul(words[count - 1], NULL, 10);
    if ((size_t)(end - line) < 4 + bytes) return NULL;
    if (consumes) {
        if (arrived()) PUT("PUB %s 4\r\n+ACK\r\n", words[3]);
        if (is_last()) PUT("PING\r\n");
        return line + 4 + bytes;
    }
    if (memmem(line + 2, bytes, "\"error\"", 7)) line[2 + bytes] = 0, die("publish", line + 2);
    confirm(strtoull(strrchr(words[1], '.') + 1, NULL, 10));
    return line + 4 + bytes;
}

static char redis_ids[NAMES_MAX][TOKEN_BYTES * 128]; /* What is to be acknowledged, by stream. */
static size_t redis_ids_size[NAMES_MAX];
static int redis_ids_count[NAMES_MAX], has_quit;

static void redis_word(const char *word, size_t length) { PUT("$%zu\r\n%.*s\r\n", length, (int)length, word); }

static void redis_read(void) {
    char each[32];
    PUT("*%d\r\n", 7 + 2 * names_count);
    for (const char **word = (const char *[]){"XREADGROUP", "GROUP", "bench", "one", "COUNT", NULL}; *word; word++) redis_word(*word, strlen(*word));
    redis_word(each, (size_t)sprintf(each, "%ld", ack));
    redis_word("STREAMS", 7);
    for (int i = 0; i < names_count; i++) redis_word(names[i], strlen(names[i]));
    for (int i = 0; i < names_count; i++) redis_word(">", 1);
}

static void redis_open(void) {
    if (consumes) for (long reads = window / ack > 0 ? window / ack : 1; reads > 0; reads--) redis_read();
}

static void redis_put(const char *name, uint64_t number) {
    (void)number;
    PUT("*5\r\n$4\r\nXADD\r\n$%zu\r\n%s\r\n$1\r\n*\r\n$1\r\nb\r\n$%ld\r\n", strlen(name), name, size);
    put_body("\r\n", 2);
}

static void redis_acknowledge(int stream) {
    PUT("*%d\r\n$4\r\nXACK\r\n", 3 + redis_ids_count[stream]);
    redis_word(names[stream], strlen(names[stream]));
    redis_word("bench", 5);
    if (OUT_BYTES - out_size < redis_ids_size[stream]) die("send", "the server reads no acknowledgements");
    memcpy(out + out_size, redis_ids[stream], redis_ids_size[stream]);
    out_size += redis_ids_size[stream];
    redis_ids_size[stream] = 0, redis_ids_count[stream] = 0;
}

/* One value of RESP: `depth` 3 holds the entries of a stream, 4 an entry with its id first. */
static char *redis_value(char *at, char *end, int depth, int place, int applies, int *stream) {
    char *line = memmem(at, (size_t)(end - at), "\r\n", 2);
    if (!line) return NULL;
    if (*at == '-') *line = 0, die("refused", at);
    long number = atol(at + 1);
    char *next = line + 2;
    if (*at == '*') {
        if (depth == 0 && number < 0) is_answered = 1; /* Nothing is left. */
        for (long i = 0; i < number && next; i++) next = redis_value(next, end, depth + 1, (int)i, applies, stream);
        return next;
    }
    if (*at != '$') return next; /* The answer to XACK. */
    if (end - next < number + 2) return NULL;
    if (depth == 2 && place == 0)
        for (*stream = 0; *stream < names_count - 1 && strncmp(names[*stream], next, (size_t)number); ++*stream);
    if (depth == 4 && place == 0 && applies) {
        size_t *used = &redis_ids_size[*stream];
        if (*used + (size_t)number + 16 > sizeof redis_ids[0]) redis_acknowledge(*stream);
        *used += (size_t)sprintf(redis_ids[*stream] + *used, "$%ld\r\n%.*s\r\n", number, (int)number, next);
        redis_ids_count[*stream]++;
        arrived();
    }
    return next + number + 2;
}

static char *redis_take(char *at, char *end) {
    int stream = 0;
    if (!consumes) {
        char *next = redis_value(at, end, 0, 0, 0, &stream);
        if (next) confirm(confirmed);
        return next;
    }
    if (!redis_value(at, end, 0, 0, 0, &stream)) return NULL;
    int is_read = *at == '*';
    char *next = redis_value(at, end, 0, 0, 1, &stream);
    if (!is_read) return last_ns = now_ns(), next;
    for (int i = 0; i < names_count; i++) if (redis_ids_count[i]) redis_acknowledge(i);
    if (!is_last() && !is_answered) redis_read();
    is_answered = 0;
    if (is_last() && !has_quit) PUT("*1\r\n$4\r\nQUIT\r\n"), has_quit = 1;
    return next;
}

static void stomp_open(void) {
    PUT("CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n%c", 0);
    for (int i = 0; consumes && i < names_count; i++) PUT("SUBSCRIBE\nid:%d\ndestination:%s\nack:client\nprefetch-count:%ld\n\n%c", i, names[i], window, 0);
}

static void stomp_put(const char *name, uint64_t number) {
    PUT("SEND\ndestination:%s\npersistent:true\nreceipt:%lu\ncontent-length:%ld\n\n", name, (unsigned long)number, size);
    put_body("\0", 1);
}

/* COMMAND\nname:value\n...\n\n<content-length bytes>\0 */
static char *stomp_take(char *at, char *end) {
    while (at < end && *at == '\n') at++;
    char *blank = memmem(at, (size_t)(end - at), "\n\n", 2);
    if (!blank) return NULL;
    *blank = 0;
    const char *length = header(at, "\ncontent-length:"), *token = header(at, consumes ? "\nack:" : "\nreceipt-id:");
    char *last = length ? blank + 2 + atol(length) : memchr(blank + 2, 0, (size_t)(end - blank - 2));
    if (!last || last >= end) return *blank = '\n', NULL;
    if (!strncmp(at, "ERROR", 5)) fprintf(stderr, "%s\n", at), die("refused", blank + 2);
    if (!strncmp(at, "RECEIPT", 7)) {
        if (consumes) answered();
        else confirm(strtoull(token, NULL, 10));
    }
    if (!strncmp(at, "MESSAGE", 7)) {
        if (arrived()) PUT("ACK\nid:%.*s\n\n%c", (int)strcspn(token, "\n"), token, 0);
        if (is_last()) PUT("DISCONNECT\nreceipt:end\n\n%c", 0);
    }
    return last + 1;
}

typedef struct {
    const char *name;
    void (*open)(void);
    void (*put)(const char *name, uint64_t number);
    char *(*take)(char *at, char *end);
} Protocol;

static const Protocol PROTOCOLS[] = {{"nats", nats_open, nats_put, nats_take}, {"redis", redis_open, redis_put, redis_take}, {"stomp", stomp_open, stomp_put, stomp_take}};
static const Protocol *protocol;

/* ---- the run ---- */

static int receive(int timeout_ms) {
    struct pollfd one = {fd, (short)(POLLIN | (out_size ? POLLOUT : 0)), 0};
    poll(&one, 1, timeout_ms);
    ssize_t got = recv(fd, in + in_size, IN_BYTES - in_size, MSG_DONTWAIT);
    if (got == 0 && consumes && is_last()) return answered(), 0;
    if (got == 0 || (got < 0 && errno != EAGAIN)) die("receive", got ? strerror(errno) : "the server closed the connection");
    if (got < 0) return 0;
    in_size += (size_t)got;
    char *at = in, *end = in + in_size;
    for (char *next; at < end && (next = protocol->take(at, end)); at = next)
        if (OUT_BYTES - out_size < OUT_BYTES / 2) flush_out();
    in_size = (size_t)(end - at);
    memmove(in, at, in_size);
    if (in_size == IN_BYTES) die("receive", "a frame is larger than the buffer");
    return 1;
}

static int is_over(int64_t now) { return now - began_ns >= (int64_t)(seconds * 1e9); }

static void publish_all(void) {
    for (;;) {
        int64_t now = now_ns();
        while (!is_over(now) && published - confirmed < (uint64_t)window && OUT_BYTES - out_size > (size_t)size + HEAD_BYTES) {
            due_ns[published % (uint64_t)(window * 2)] = now;
            protocol->put(names[published % (uint64_t)names_count], published);
            published++;
        }
        flush_out();
        if (is_over(now) && confirmed >= published) return;
        if (now - last_ns > (int64_t)STALLED_S * 1000000000) die("stalled", "nothing came for 20 seconds");
        receive(100);
    }
}

static void consume_all(void) {
    while (!is_answered && !is_over(now_ns())) {
        flush_out();
        receive(100);
    }
}

static void option(char *word) {
    char *value = strchr(word, '=');
    if (!value) die("not KEY=VALUE", word);
    *value++ = 0;
    if (!strcmp(word, "size")) size = atol(value);
    else if (!strcmp(word, "seconds")) seconds = atof(value);
    else if (!strcmp(word, "window")) window = atol(value);
    else if (!strcmp(word, "count")) count_max = atol(value);
    else if (!strcmp(word, "ack")) ack = atol(value);
    else if (!strcmp(word, "samples")) samples_path = value;
    else die("unknown key", word);
}

static void open_connection(char *address) {
    char *colon = strrchr(address, ':');
    if (!colon) die("not HOST:PORT", address);
    *colon = 0;
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(colon + 1))};
    inet_pton(AF_INET, address, &server.sin_addr);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&server, sizeof server)) die("connect", strerror(errno));
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

int main(int count, char **args) {
    if (count < 5) die("usage", "see the head of text.c");
    for (size_t i = 0; i < sizeof PROTOCOLS / sizeof *PROTOCOLS; i++) if (!strcmp(PROTOCOLS[i].name, args[1])) protocol = &PROTOCOLS[i];
    if (!protocol) die("unknown protocol", args[1]);
    consumes = !strcmp(args[2], "consume");
    for (int i = 5; i < count; i++) option(args[i]);
    for (char *name = strtok(args[4], ","); name && names_count < NAMES_MAX; name = strtok(NULL, ",")) names[names_count++] = name;
    if (size > OUT_BYTES / 4) die("bounds", "the size of a body");
    open_connection(args[3]);
    body = malloc((size_t)size);
    memset(body, 'b', (size_t)size);
    due_ns = calloc((size_t)window * 2, sizeof *due_ns);
    samples = calloc(1 << 22, sizeof *samples);
    protocol->open();
    began_ns = last_ns = now_ns();
    if (consumes) consume_all();
    else publish_all();
    if (samples_path && !consumes) {
        FILE *file = fopen(samples_path, "wb");
        size_t kept = confirmed < 1 << 22 ? confirmed : 1 << 22;
        if (!file || fwrite(samples, sizeof *samples, kept, file) != kept || fclose(file)) die(samples_path, strerror(errno));
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    printf("{\"client\": \"text.c, %s\", \"published\": %lu, \"delivered\": %lu, \"seconds\": %.6f, \"cpu_seconds\": %.6f}\n", protocol->name,
           (unsigned long)confirmed, (unsigned long)delivered, (double)(last_ns - began_ns) / 1e9, cpu);
    return 0;
}
