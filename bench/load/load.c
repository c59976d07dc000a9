/* The load generator: one client process on librdkafka that costs as little as a client can.
 *
 *   load produce ADDRESS TOPIC PARTITIONS SIZE SECONDS LINGER_MS RUN    as fast as the broker takes it; RUN messages go
 *                                                                        to a partition, then as many to the next one
 *   load fill    ADDRESS TOPIC PARTITIONS SIZE COUNT   LINGER_MS BATCH_BYTES   the same, COUNT messages
 *   load consume ADDRESS TOPIC PARTITIONS COUNT SECONDS_MAX         from the beginning, COUNT messages
 *   load ping    ADDRESS TOPIC SIZE SECONDS SAMPLES                 one message in flight
 *   load pace    ADDRESS TOPIC PARTITIONS SIZE SECONDS LINGER_MS RATE SAMPLES   RATE messages a second
 *   load spread  ADDRESS PREFIX FIRST:TOPICS SIZE SECONDS LINGER_MS RATE SAMPLES      the same to so many topics of one
 *                                                                        partition, PREFIX with a number from FIRST on
 *
 * Words of the form KEY=VALUE after these are settings of librdkafka. The result is one JSON object on standard output. SAMPLES is a file that gets one int64 of nanoseconds for each message,
 * from the moment it was due (not the moment the client came to it) to its delivery report. Payloads are not copied and
 * successful delivery is not reported per message where only throughput is asked: flush() and the log's end offset tell.
 *
 * The few declarations of librdkafka's public interface below are written out so that only a compiler is needed, and the
 * very library that the Python client brings is linked: every bench uses the same one.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_message_s {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

extern rd_kafka_conf_t *rd_kafka_conf_new(void);
extern int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
extern void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *,
                                        void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
extern rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
extern rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, void *);
extern int rd_kafka_produce(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
extern int rd_kafka_produce_batch(rd_kafka_topic_t *, int32_t, int, rd_kafka_message_t *, int);
extern int rd_kafka_poll(rd_kafka_t *, int);
extern int rd_kafka_flush(rd_kafka_t *, int);
extern int rd_kafka_last_error(void);
extern const char *rd_kafka_err2str(int);
extern rd_kafka_queue_t *rd_kafka_queue_new(rd_kafka_t *);
extern int rd_kafka_consume_start_queue(rd_kafka_topic_t *, int32_t, int64_t, rd_kafka_queue_t *);
extern ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
extern void rd_kafka_message_destroy(rd_kafka_message_t *);
extern const char *rd_kafka_version_str(void);

enum { PRODUCER = 0, CONSUMER = 1, FLAG_OWN_PARTITION = 0x8, QUEUE_FULL = -184, PARTITION_EOF = -191 };
enum { BATCH = 1000, CONSUME_BATCH = 10000, FLUSH_MS_MAX = 60000 };

static const char *const DEFAULT_BATCH = "1000000"; /* librdkafka's own default. */
static atomic_long delivered;
static atomic_long failed;
static atomic_int last_error;
static atomic_int over;
static char **extra_settings;
static int64_t *samples;
static size_t samples_max;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what, const char *why) {
    fprintf(stderr, "load: %s: %s\n", what, why);
    exit(1);
}

static void delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk;
    (void)opaque;
    if (message->err) {
        atomic_fetch_add(&failed, 1);
        atomic_store(&last_error, message->err);
        return;
    }
    int64_t due_ns = (int64_t)(intptr_t)message->_private;
    long at = atomic_fetch_add(&delivered, 1);
    if (samples && due_ns && (size_t)at < samples_max) samples[at] = now_ns() - due_ns;
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char why[512];
    if (rd_kafka_conf_set(conf, key, value, why, sizeof why)) die(key, why);
}

static rd_kafka_t *client(int kind, rd_kafka_conf_t *conf, const char *address) {
    char why[512];
    set(conf, "bootstrap.servers", address);
    for (char **each = extra_settings; *each; each++) {
        char *value = strchr(*each, '=');
        *value = 0;
        set(conf, *each, value + 1);
    }
    rd_kafka_t *rk = rd_kafka_new(kind, conf, why, sizeof why);
    if (!rk) die("client", why);
    return rk;
}

/* Every delivery is reported, as programs want it. Reports of errors alone would be slower: the thread of the connection
 * would then let go of each message itself, under the lock that the program takes for each new one. */
static rd_kafka_t *producer(const char *address, const char *linger_ms, const char *batch_bytes) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "acks", "all");
    set(conf, "linger.ms", linger_ms);
    set(conf, "batch.size", batch_bytes);
    /* A bounded queue, so that the tail to flush after the last second stays short; 64 MB are 50 full batches. */
    set(conf, "queue.buffering.max.kbytes", "65536");
    set(conf, "queue.buffering.max.messages", "1000000");
    rd_kafka_conf_set_dr_msg_cb(conf, delivery);
    return client(PRODUCER, conf, address);
}

/* One delivered message, before the clock starts: connection and metadata are then in place. */
static void first_message(rd_kafka_t *rk, rd_kafka_topic_t *topic, void *payload, size_t size) {
    if (rd_kafka_produce(topic, 0, 0, payload, size, NULL, 0, NULL)) die("produce", rd_kafka_err2str(rd_kafka_last_error()));
    if (rd_kafka_flush(rk, 30000)) die("first message", "not acknowledged within 30 s");
    atomic_store(&delivered, 0);
}

/* What fills a queue is text: the SQS door would have to wrap anything else, and that is not what is measured. */
static void *payload_of(size_t size, int is_text) {
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
    unsigned char *bytes = malloc(size);
    uint64_t x = 88172645463325252ull;
    for (size_t i = 0; i < size; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        bytes[i] = is_text ? (unsigned char)LETTERS[x & 63] : (unsigned char)x;
    }
    return bytes;
}

static double busiest_thread_seconds(void) {
    long most = 0;
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *each;
    while (tasks && (each = readdir(tasks))) {
        char path[300], line[1024];
        if (each->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", each->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        if (fgets(line, sizeof line, file)) {
            long user = 0, kernel = 0;
            char *rest = strrchr(line, ')');
            if (rest && sscanf(rest + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &kernel) == 2 &&
                user + kernel > most)
                most = user + kernel;
        }
        fclose(file);
    }
    if (tasks) closedir(tasks);
    return (double)most / (double)sysconf(_SC_CLK_TCK);
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double cpu_ahead; /* What it took to get ready, where that is much. */

static void report(long messages, size_t size, int64_t elapsed_ns) {
    double cpu = cpu_seconds() - cpu_ahead;
    printf("{\"client\": \"librdkafka %s (C)\", \"messages\": %ld, \"bytes\": %ld, \"seconds\": %.6f, \"failed\": %ld, "
           "\"cpu_seconds\": %.3f, \"busiest_thread_seconds\": %.3f}\n",
           rd_kafka_version_str(), messages, messages * (long)size, (double)elapsed_ns / 1e9, atomic_load(&failed), cpu,
           busiest_thread_seconds());
    fflush(stdout);
    if (atomic_load(&failed)) die("delivery", rd_kafka_err2str(atomic_load(&last_error)));
    _exit(0); /* Tearing the client down is not part of any figure. */
}

static void produce(char **args, int by_count) {
    int partitions = atoi(args[2]);
    size_t size = (size_t)atol(args[3]);
    long count_max = by_count ? atol(args[4]) : INT64_MAX, run = by_count ? 1 : atol(args[6]);
    double seconds = by_count ? 3600 : atof(args[4]);
    rd_kafka_t *rk = producer(args[0], args[5], by_count ? args[6] : DEFAULT_BATCH);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, args[1], NULL);
    void *payload = payload_of(size, by_count);
    rd_kafka_message_t batch[BATCH];
    first_message(rk, topic, payload, size);
    int64_t start = now_ns(), deadline = start + (int64_t)(seconds * 1e9);
    long sent = 0, next = 0;
    memset(batch, 0, sizeof batch);
    while (sent < count_max && now_ns() < deadline && !atomic_load(&failed)) {
        long want = count_max - sent < BATCH ? count_max - sent : BATCH;
        for (long i = 0; i < want; i++) {
            batch[i].payload = payload;
            batch[i].len = size;
            batch[i].partition = (int32_t)((next + i) / run % partitions);
            batch[i].err = 0;
        }
        long taken = rd_kafka_produce_batch(topic, 0, partitions > 1 ? FLAG_OWN_PARTITION : 0, batch, (int)want);
        /* The queue takes them in order until it is full, so what was taken is a prefix. */
        sent += taken;
        next += taken;
        if (taken < want) rd_kafka_poll(rk, 1);
    }
    if (rd_kafka_flush(rk, FLUSH_MS_MAX)) die("flush", "not everything was acknowledged in time");
    report(sent, size, now_ns() - start);
}

static void consume(char **args) {
    int partitions = atoi(args[2]);
    long count = atol(args[3]), seen = 0, bytes = 0;
    double seconds_max = atof(args[4]);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    /* Room enough that the client never pauses fetching while the log has more. */
    set(conf, "queued.min.messages", "10000000");
    set(conf, "queued.max.messages.kbytes", "1000000");
    rd_kafka_t *rk = client(CONSUMER, conf, args[0]);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, args[1], NULL);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    for (int p = 0; p < partitions; p++)
        if (rd_kafka_consume_start_queue(topic, p, 0, queue)) die("consume", rd_kafka_err2str(rd_kafka_last_error()));
    static rd_kafka_message_t *messages[CONSUME_BATCH];
    int64_t start = 0, deadline = now_ns() + (int64_t)(seconds_max * 1e9) + 30000000000;
    long before = 0;
    while (seen < count && now_ns() < deadline) {
        ssize_t got = rd_kafka_consume_batch_queue(queue, 100, messages, CONSUME_BATCH);
        if (got < 0) die("consume", rd_kafka_err2str(rd_kafka_last_error()));
        for (ssize_t i = 0; i < got; i++) {
            if (messages[i]->err && messages[i]->err != PARTITION_EOF)
                die("consume", rd_kafka_err2str(messages[i]->err));
            if (!messages[i]->err) seen++, bytes += (long)messages[i]->len;
            rd_kafka_message_destroy(messages[i]);
        }
        /* The clock starts at the first arrival: connecting and looking up the leader are not throughput. */
        if (!start && seen) start = now_ns(), before = seen, deadline = start + (int64_t)(seconds_max * 1e9);
    }
    if (seen <= before) die("consume", "nothing arrived in time");
    report(seen - before, (size_t)(bytes / seen), now_ns() - start);
}

static void keep_samples(const char *path) {
    FILE *file = fopen(path, "wb");
    size_t count = (size_t)atomic_load(&delivered);
    if (count > samples_max) count = samples_max;
    if (!file || fwrite(samples, sizeof *samples, count, file) != count || fclose(file)) die("samples", path);
}

static void ping(char **args) {
    size_t size = (size_t)atol(args[2]);
    int64_t window_ns = (int64_t)(atof(args[3]) * 1e9);
    rd_kafka_t *rk = producer(args[0], "0", DEFAULT_BATCH);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, args[1], NULL);
    void *payload = payload_of(size, 0);
    first_message(rk, topic, payload, size);
    samples_max = 1000000;
    samples = calloc(samples_max, sizeof *samples);
    int64_t start = now_ns();
    long sent = 0;
    while (now_ns() - start < window_ns && (size_t)sent < samples_max && !atomic_load(&failed)) {
        int64_t due = now_ns();
        if (rd_kafka_produce(topic, 0, 0, payload, size, NULL, 0, (void *)(intptr_t)due))
            die("produce", rd_kafka_err2str(rd_kafka_last_error()));
        sent++;
        while (atomic_load(&delivered) + atomic_load(&failed) < sent) rd_kafka_poll(rk, 1000);
    }
    int64_t elapsed = now_ns() - start;
    keep_samples(args[4]);
    report(sent, size, elapsed);
}

static void *serve_reports(void *rk) {
    while (!atomic_load(&over)) rd_kafka_poll(rk, 100);
    return NULL;
}

/* One message to each topic, before the clock starts: the client then knows who leads them. */
static rd_kafka_topic_t **meet_topics(rd_kafka_t *rk, const char *prefix, int first, int count, void *payload,
                                      size_t size) {
    rd_kafka_topic_t **topics = calloc((size_t)count, sizeof *topics);
    for (int i = 0; i < count; i++) {
        char name[300];
        snprintf(name, sizeof name, "%s%d", prefix, first + i);
        topics[i] = rd_kafka_topic_new(rk, name, NULL);
        if (rd_kafka_produce(topics[i], 0, 0, payload, size, NULL, 0, NULL)) die("produce", rd_kafka_err2str(rd_kafka_last_error()));
        rd_kafka_poll(rk, 0);
    }
    if (rd_kafka_flush(rk, 2 * FLUSH_MS_MAX)) die("first messages", "not acknowledged in time");
    atomic_store(&delivered, 0);
    return topics;
}

static void pace(char **args, int many) {
    const char *colon = strchr(args[2], ':');
    int first = colon ? atoi(args[2]) : 0, partitions = atoi(colon ? colon + 1 : args[2]);
    size_t size = (size_t)atol(args[3]);
    double seconds = atof(args[4]), rate = atof(args[6]);
    rd_kafka_t *rk = producer(args[0], args[5], DEFAULT_BATCH);
    void *payload = payload_of(size, many);
    rd_kafka_topic_t **topics = NULL, *topic = NULL;
    if (many) topics = meet_topics(rk, args[1], first, partitions, payload, size);
    else first_message(rk, topic = rd_kafka_topic_new(rk, args[1], NULL), payload, size);
    samples_max = (size_t)(rate * seconds) + 1000;
    samples = calloc(samples_max, sizeof *samples);
    pthread_t reports;
    pthread_create(&reports, NULL, serve_reports, rk);
    cpu_ahead = cpu_seconds();
    int64_t start = now_ns(), window_ns = (int64_t)(seconds * 1e9), now;
    long sent = 0;
    while ((now = now_ns()) - start < window_ns && !atomic_load(&failed)) {
        long due = (long)(rate * (double)(now - start) / 1e9);
        for (; sent < due; sent++) {
            int64_t due_ns = start + (int64_t)((double)sent / rate * 1e9);
            int32_t next = (int32_t)(sent % partitions);
            if (rd_kafka_produce(many ? topics[next] : topic, many ? 0 : next, 0, payload, size, NULL, 0,
                                 (void *)(intptr_t)due_ns)) {
                if (rd_kafka_last_error() != QUEUE_FULL) die("produce", rd_kafka_err2str(rd_kafka_last_error()));
                break; /* Saturated: try again in the next turn; the wait counts into the latency. */
            }
        }
        /* With many topics the client goes through all of them for each burst: fewer bursts. */
        struct timespec turn = {0, many ? 10000000 : 500000};
        nanosleep(&turn, NULL);
    }
    int64_t elapsed = now_ns() - start;
    if (rd_kafka_flush(rk, FLUSH_MS_MAX)) die("flush", "not everything was acknowledged in time");
    while (atomic_load(&delivered) + atomic_load(&failed) < sent) usleep(1000);
    atomic_store(&over, 1);
    pthread_join(reports, NULL);
    keep_samples(args[7]);
    report(sent, size, elapsed);
}

int main(int count, char **args) {
    const char *mode = count > 1 ? args[1] : "";
    while (count > 2 && strchr(args[count - 1], '=')) count--;
    extra_settings = args + count;
    if (!strcmp(mode, "produce") && count == 9) produce(args + 2, 0);
    if (!strcmp(mode, "fill") && count == 9) produce(args + 2, 1);
    if (!strcmp(mode, "consume") && count == 7) consume(args + 2);
    if (!strcmp(mode, "ping") && count == 7) ping(args + 2);
    if (!strcmp(mode, "pace") && count == 10) pace(args + 2, 0);
    if (!strcmp(mode, "spread") && count == 10) pace(args + 2, 1);
    fprintf(stderr, "load: see the head of load.c for how it is called\n");
    return 2;
}
