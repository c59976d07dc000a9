/* The load generator of NATS JetStream: one thread, one connection, the text protocol written by hand.
 *
 *   nats publish ADDRESS SUBJECTS KEY=VALUE...   publish to the subjects of a stream in turn; each message is acknowledged by the stream
 *   nats consume ADDRESS DELIVER  KEY=VALUE...   take what a push consumer delivers to this subject, and acknowledge
 *
 *   size     bytes of a body (100)               seconds  length of the run (2)
 *   window   unacknowledged messages (1000)      count    messages that there are (consume)
 *   ack      acknowledge every N-th message; the consumer's policy is `all` (100)
 *   samples  file: one int64 of nanoseconds for each message, to its acknowledgement (publish)
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

enum { SUBJECTS_MAX = 64, IN_BYTES = 1 << 21, OUT_BYTES = 1 << 18, STALLED_S = 20 };

static long size = 100, window = 1000, count_max = 1L << 62, ack = 100;
static double seconds = 2.0;
static const char *samples_path;
static char *subjects[SUBJECTS_MAX], in[IN_BYTES + 1], out[OUT_BYTES];
static size_t in_size, out_size;
static int subjects_count, fd, consumes, is_answered;
static int64_t *due_ns, *samples, began_ns, last_ns;
static uint64_t published, confirmed, delivered;
static char *body;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what, const char *why) {
    fprintf(stderr, "nats: %s: %.1000s\n", what, why);
    exit(1);
}

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

static void confirm(const char *subject, const char *payload) {
    if (strstr(payload, "\"error\"")) die("publish", payload);
    uint64_t number = strtoull(strrchr(subject, '.') + 1, NULL, 10);
    int64_t now = now_ns();
    if (samples_path) samples[confirmed % (1 << 22)] = now - due_ns[number % (uint64_t)(window * 2)];
    confirmed++;
    last_ns = now;
}

static void arrived(const char *reply) {
    delivered++;
    last_ns = now_ns();
    if (delivered % (uint64_t)ack == 0 || delivered == (uint64_t)count_max) out_size += (size_t)sprintf(out + out_size, "PUB %s 4\r\n+ACK\r\n", reply);
    if (delivered == (uint64_t)count_max) out_size += (size_t)sprintf(out + out_size, "PING\r\n");
}

/* MSG <subject> <sid> [reply] <bytes>\r\n<payload>\r\n */
static void take(void) {
    char *at = in, *end = in + in_size;
    for (;;) {
        char *line = memmem(at, (size_t)(end - at), "\r\n", 2);
        if (!line) break;
        if (!strncmp(at, "-ERR", 4)) *line = 0, die("refused", at);
        if (!strncmp(at, "PING", 4)) out_size += (size_t)sprintf(out + out_size, "PONG\r\n");
        if (!strncmp(at, "PONG", 4)) is_answered = 1, last_ns = now_ns();
        if (strncmp(at, "MSG ", 4)) {
            at = line + 2;
            continue;
        }
        char head[512];
        size_t length = (size_t)(line - at) < sizeof head - 1 ? (size_t)(line - at) : sizeof head - 1;
        memcpy(head, at, length);
        head[length] = 0;
        char *words[5], *rest = head;
        int count = 0;
        for (char *word; count < 5 && (word = strsep(&rest, " "));) words[count++] = word;
        size_t bytes = strtoul(words[count - 1], NULL, 10);
        if ((size_t)(end - line) < 4 + bytes) break;
        char kept = line[2 + bytes];
        line[2 + bytes] = 0;
        if (consumes) arrived(words[3]);
        else confirm(words[1], line + 2);
        line[2 + bytes] = kept;
        at = line + 4 + bytes;
        if (OUT_BYTES - out_size < 4096) flush_out();
    }
    in_size = (size_t)(end - at);
    memmove(in, at, in_size);
}

static void receive(int timeout_ms) {
    struct pollfd one = {fd, (short)(POLLIN | (out_size ? POLLOUT : 0)), 0};
    poll(&one, 1, timeout_ms);
    ssize_t got = recv(fd, in + in_size, IN_BYTES - in_size, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) die("receive", got ? strerror(errno) : "the server closed the connection");
    if (got > 0) in_size += (size_t)got, take();
}

static int is_over(int64_t now) { return now - began_ns >= (int64_t)(seconds * 1e9); }

static void publish_all(void) {
    for (;;) {
        int64_t now = now_ns();
        while (!is_over(now) && published - confirmed < (uint64_t)window && OUT_BYTES - out_size > (size_t)size + 512) {
            due_ns[published % (uint64_t)(window * 2)] = now;
            out_size += (size_t)sprintf(out + out_size, "PUB %s acks.%lu %ld\r\n", subjects[published % (uint64_t)subjects_count], (unsigned long)published, size);
            memcpy(out + out_size, body, (size_t)size);
            out_size += (size_t)size;
            out[out_size++] = '\r', out[out_size++] = '\n';
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

int main(int count, char **args) {
    if (count < 4) die("usage", "see the head of nats.c");
    consumes = !strcmp(args[1], "consume");
    for (int i = 4; i < count; i++) option(args[i]);
    for (char *name = strtok(args[3], ","); name && subjects_count < SUBJECTS_MAX; name = strtok(NULL, ",")) subjects[subjects_count++] = name;
    char *colon = strrchr(args[2], ':');
    if (!colon || size > OUT_BYTES / 2) die("bounds", "the address, or the size of a body");
    *colon = 0;
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(colon + 1))};
    inet_pton(AF_INET, args[2], &server.sin_addr);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&server, sizeof server)) die("connect", strerror(errno));
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    body = malloc((size_t)size);
    memset(body, 'b', (size_t)size);
    due_ns = calloc((size_t)window * 2, sizeof *due_ns);
    samples = calloc(1 << 22, sizeof *samples);
    out_size = (size_t)sprintf(out, "CONNECT {\"verbose\":false,\"pedantic\":false,\"tls_required\":false}\r\nSUB %s 1\r\n", consumes ? subjects[0] : "acks.*");
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
    printf("{\"client\": \"nats.c\", \"published\": %lu, \"delivered\": %lu, \"seconds\": %.6f, \"cpu_seconds\": %.6f}\n",
           (unsigned long)confirmed, (unsigned long)delivered, (double)(last_ns - began_ns) / 1e9, cpu);
    return 0;
}
