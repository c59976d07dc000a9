/* The load generator of the SQS door: one thread, keep-alive connections, JSON 1.0, one request in flight on each.
 *
 *   sqs send    ADDRESS URLS KEY=VALUE...    send bodies of `size` bytes, `batch` to a request
 *   sqs receive ADDRESS URLS KEY=VALUE...    receive up to `batch`, and keep the receipt handles
 *   sqs delete  ADDRESS URLS KEY=VALUE...    delete the kept handles
 *   sqs drain   ADDRESS URLS KEY=VALUE...    receive and delete in turn, long polling
 *   sqs create  ADDRESS PREFIX KEY=VALUE...  create `count` queues
 *
 * URLS is one queue's URL or several with commas; connection i uses the i-th of them, modulo. Keys:
 *
 *   connections  how many (32)               batch      messages to a request (1)
 *   size         bytes of a body (1024)      seconds    length of the run (2)
 *   count        messages at most            rate       requests a second, 0: as fast as answers come (0)
 *   delay        DelaySeconds to send with   groups     MessageGroupId from so many groups, in turn (0: none)
 *   visibility   VisibilityTimeout asked     wait       WaitTimeSeconds asked (0)
 *   spread       send: the URL is a beginning, and requests go in turn to so many queues that have a number behind it
 *   samples      file: one int64 of nanoseconds for each request, from when it was due to its answer
 *   handles      file of receipt handles, one in a line: written by receive, read by delete
 *   lateness     file (drain): one int64 of milliseconds for each message, from when it was due to its arrival
 *   due          (drain) how late is reckoned: `sent` + `after` ms, or `first` receive + `after` ms
 *
 * A run ends when its time is over, its messages are used up, or (receive) a queue has no more; the clock stops at the
 * last answer. The result is one JSON object on standard output. Any answer but 200, and any failed entry of a batch, is
 * an error: a server that refuses work must not look fast.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 1024, URLS_MAX = 64, BATCH_MAX = 10, IN_BYTES = 4 << 20, HEAD_BYTES = 1024 };
enum { IDLE, BUSY, DONE };
enum { SEND, RECEIVE, DELETE, DRAIN, CREATE };
static const char *const MODES[] = {"send", "receive", "delete", "drain", "create"};

typedef struct {
    int fd, state, deleting; /* deleting: a drain's answer under way is that of its delete. */
    const char *url;
    char *out, *in;
    size_t out_size, in_size, sent;
    int64_t due_ns;
    int carried; /* Messages in the request under way. */
    int handles_count;
    char *handles[BATCH_MAX];
} Connection;

static int mode;
static long connections_count = 32, batch = 1, size = 1024, count_max = 1L << 62, groups, visibility = -1, wait_s;
static long delay = -1, after_ms, spread, spread_next;
static double seconds = 2.0, rate;
static const char *samples_path, *handles_path, *lateness_path, *due_from = "sent", *prefix;
static char *urls[URLS_MAX];
static int urls_count;
static struct sockaddr_in server;
static char host[64];
static char *body;
static FILE *handles_out;
static char **handles;
static long handles_count, handles_next;
static int64_t *samples, *lateness;
static size_t samples_count, samples_room, lateness_count, lateness_room;
static long asked, messages, requests, empty_answers;
static int64_t began_ns, last_ns;
static int poller;
static Connection all[CONNECTIONS_MAX];

static int64_t clock_ns(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

static void die(const char *what, const char *why) {
    fprintf(stderr, "sqs: %s: %.2000s\n", what, why);
    exit(1);
}

static void keep(int64_t **list, size_t *count, size_t *room, int64_t value) {
    if (*count == *room) {
        *room = *room ? *room * 2 : 65536;
        *list = realloc(*list, *room * sizeof **list);
    }
    (*list)[(*count)++] = value;
}

static void write_list(const char *path, int64_t *list, size_t count) {
    if (!path) return;
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(list, sizeof *list, count, file) != count || fclose(file)) die(path, strerror(errno));
}

/* ---- requests ---- */

static char *write_entries_head(Connection *c, char *at) {
    if (spread) return at + sprintf(at, "{\"QueueUrl\":\"%s%ld\"", c->url, spread_next++ % spread);
    return at + sprintf(at, "{\"QueueUrl\":\"%s\"", c->url);
}

static char *write_message(char *at) {
    if (delay >= 0) at += sprintf(at, "\"DelaySeconds\":%ld,", delay);
    if (groups) {
        long number = asked;
        at += sprintf(at, "\"MessageGroupId\":\"g%ld\",\"MessageDeduplicationId\":\"%d-%ld\",", number % groups, getpid(), number);
    }
    at += sprintf(at, "\"MessageBody\":\"");
    at = mempcpy(at, body, (size_t)size);
    *at++ = '"';
    asked++;
    return at;
}

static const char *write_send(Connection *c, char *at, char **end) {
    at = write_entries_head(c, at);
    if (batch == 1) {
        *at++ = ',';
        at = write_message(at);
        c->carried = 1;
    } else {
        at += sprintf(at, ",\"Entries\":[");
        for (c->carried = 0; c->carried < batch && asked < count_max; c->carried++) {
            at += sprintf(at, "%s{\"Id\":\"%d\",", c->carried ? "," : "", c->carried);
            at = write_message(at);
            *at++ = '}';
        }
        *at++ = ']';
    }
    *at++ = '}';
    *end = at;
    return batch == 1 ? "SendMessage" : "SendMessageBatch";
}

static const char *write_receive(Connection *c, char *at, char **end) {
    at = write_entries_head(c, at);
    at += sprintf(at, ",\"MaxNumberOfMessages\":%ld,\"WaitTimeSeconds\":%ld", batch, wait_s);
    if (visibility >= 0) at += sprintf(at, ",\"VisibilityTimeout\":%ld", visibility);
    if (mode == DRAIN && lateness_path)
        at += sprintf(at, ",\"AttributeNames\":[\"%s\"]",
                      strcmp(due_from, "sent") ? "ApproximateFirstReceiveTimestamp" : "SentTimestamp");
    *at++ = '}';
    *end = at;
    asked += batch;
    return "ReceiveMessage";
}

static const char *write_delete(Connection *c, char *at, char **end, char **which, int count) {
    at = write_entries_head(c, at);
    if (batch == 1) {
        at += sprintf(at, ",\"ReceiptHandle\":\"%s\"", which[0]);
    } else {
        at += sprintf(at, ",\"Entries\":[");
        for (int i = 0; i < count; i++)
            at += sprintf(at, "%s{\"Id\":\"%d\",\"ReceiptHandle\":\"%s\"}", i ? "," : "", i, which[i]);
        *at++ = ']';
    }
    *at++ = '}';
    *end = at;
    c->carried = count;
    return batch == 1 ? "DeleteMessage" : "DeleteMessageBatch";
}

static const char *write_create(Connection *c, char *at, char **end) {
    at += sprintf(at, "{\"QueueName\":\"%s%ld\"}", prefix, asked++);
    *end = at;
    c->carried = 1;
    return "CreateQueue";
}

static void flush_out(Connection *c) {
    while (c->sent < c->out_size) {
        ssize_t wrote = send(c->fd, c->out + c->sent, c->out_size - c->sent, MSG_NOSIGNAL);
        if (wrote < 0 && errno == EAGAIN) {
            struct epoll_event event = {EPOLLIN | EPOLLOUT, {.ptr = c}};
            epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event);
            return;
        }
        if (wrote < 0) die("send", strerror(errno));
        c->sent += (size_t)wrote;
    }
}

/* The body is written behind room for the head, and the head right before it, so that both leave in one piece. */
static void request(Connection *c, int64_t due_ns) {
    char *start = c->out + HEAD_BYTES, *end = start;
    const char *action;
    if (mode == SEND) action = write_send(c, start, &end);
    else if (mode == CREATE) action = write_create(c, start, &end);
    else if (mode == DELETE) {
        int count = (int)(handles_count - handles_next < batch ? handles_count - handles_next : batch);
        action = write_delete(c, start, &end, handles + handles_next, count);
        handles_next += count;
    } else if (mode == DRAIN && c->handles_count) {
        action = write_delete(c, start, &end, c->handles, c->handles_count);
        c->deleting = 1;
    } else action = write_receive(c, start, &end);
    char head[HEAD_BYTES];
    int head_size = snprintf(head, sizeof head,
        "POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-amz-json-1.0\r\nX-Amz-Target: AmazonSQS.%s\r\n"
        "X-Amz-Date: 20260101T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sqs/"
        "aws4_request, SignedHeaders=host;x-amz-date, Signature="
        "0000000000000000000000000000000000000000000000000000000000000000\r\nContent-Length: %zu\r\n\r\n",
        host, action, (size_t)(end - start));
    memmove(c->out, head, (size_t)head_size);
    memmove(c->out + head_size, start, (size_t)(end - start));
    c->out_size = (size_t)head_size + (size_t)(end - start);
    c->sent = c->in_size = 0;
    c->due_ns = due_ns;
    c->state = BUSY;
    flush_out(c);
}

/* ---- answers ---- */

static int64_t number_after(const char *from, const char *end, const char *name) {
    const char *at = memmem(from, (size_t)(end - from), name, strlen(name));
    if (!at) return -1;
    for (at += strlen(name); at < end && (*at < '0' || *at > '9'); at++) {}
    return atoll(at);
}

static int take_messages(Connection *c, const char *at, const char *end) {
    int found = 0;
    static const char NAME[] = "\"ReceiptHandle\"";
    int64_t now_ms = clock_ns(CLOCK_REALTIME) / 1000000;
    if (mode == DRAIN && lateness_path) {
        const char *name = strcmp(due_from, "sent") ? "\"ApproximateFirstReceiveTimestamp\"" : "\"SentTimestamp\"";
        const char *scan = at;
        while ((scan = memmem(scan, (size_t)(end - scan), name, strlen(name)))) {
            keep(&lateness, &lateness_count, &lateness_room, now_ms - number_after(scan, end, name) - after_ms);
            scan += strlen(name);
        }
    }
    while ((at = memmem(at, (size_t)(end - at), NAME, sizeof NAME - 1))) {
        const char *first = memchr(at + sizeof NAME - 1, '"', (size_t)(end - at) - sizeof NAME + 1);
        const char *last = first ? memchr(first + 1, '"', (size_t)(end - first - 1)) : NULL;
        if (!last) die("receive", "a receipt handle without an end");
        size_t length = (size_t)(last - first - 1);
        if (mode == DRAIN) {
            free(c->handles[found]);
            c->handles[found] = strndup(first + 1, length);
        } else if (handles_out) {
            fwrite(first + 1, 1, length, handles_out);
            fputc('\n', handles_out);
        }
        at = last;
        if (++found == BATCH_MAX) break;
    }
    return found;
}

/* Whether the answer is whole; then where its body lies. */
static int whole(Connection *c, const char **content, const char **end, int *closes) {
    c->in[c->in_size] = 0;
    char *blank = strstr(c->in, "\r\n\r\n");
    if (!blank) return 0;
    *content = blank + 4;
    *blank = 0;
    char *length = strcasestr(c->in, "\r\ncontent-length:");
    int chunked = strcasestr(c->in, "\r\ntransfer-encoding: chunked") != NULL;
    *closes = strcasestr(c->in, "\r\nconnection: close") != NULL || !strncmp(c->in, "HTTP/1.0", 8);
    *blank = '\r';
    if (chunked) {
        *end = c->in + c->in_size;
        return c->in_size >= 5 && !memcmp(*end - 5, "0\r\n\r\n", 5);
    }
    if (!length) die("answer", "neither Content-Length nor chunks");
    *end = *content + atol(length + 17);
    return c->in + c->in_size >= *end;
}

static void answered(Connection *c, const char *content, const char *end) {
    if (strncmp(c->in + 8, " 200", 4)) die("refused", c->in);
    if (batch > 1 && memmem(content, (size_t)(end - content), "\"SenderFault\"", 13)) die("an entry failed", c->in);
    int64_t now = now_ns();
    int received = mode == RECEIVE || (mode == DRAIN && !c->deleting) ? take_messages(c, content, end) : 0;
    c->state = IDLE;
    if (mode == RECEIVE || (mode == DRAIN && !c->deleting)) asked -= batch - received; /* What did not come is asked for again. */
    if (mode == RECEIVE && !received) {
        empty_answers++;
        c->state = DONE; /* The queue has no more; this answer is not counted, and the clock stopped before it. */
        return;
    }
    requests++;
    last_ns = now;
    if (mode == DRAIN) {
        if (c->deleting) messages += c->carried;
        c->handles_count = received;
        c->deleting = 0;
    } else messages += mode == RECEIVE ? received : c->carried;
    if (samples_path) keep(&samples, &samples_count, &samples_room, now - c->due_ns);
}

static void open_connection(Connection *c) {
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&server, sizeof server)) die("connect", strerror(errno));
    int one = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct timeval none = {0, 0};
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    struct epoll_event event = {EPOLLIN, {.ptr = c}};
    epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
}

static void readable(Connection *c) {
    ssize_t got = recv(c->fd, c->in + c->in_size, IN_BYTES - c->in_size - 1, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got < 0 && (errno != ECONNRESET || c->state == BUSY)) die("receive", strerror(errno));
    if (got <= 0) { /* A server may let go of what has been idle for long. */
        if (c->state == BUSY) die("receive", "the server closed the connection before its answer");
        close(c->fd);
        open_connection(c);
        return;
    }
    c->in_size += (size_t)got;
    const char *content, *end;
    int closes = 0;
    if (!whole(c, &content, &end, &closes)) return;
    answered(c, content, end);
    if (closes) {
        close(c->fd);
        open_connection(c);
    }
}

/* ---- the run ---- */

static int drained(int64_t now) { return messages >= count_max || now - began_ns >= (int64_t)(seconds * 1e9); }

/* A drain takes no more than it counts: what it leased and left would be work that no figure shows. */
static int more_to_ask(int64_t now) {
    if (now - began_ns >= (int64_t)(seconds * 1e9)) return 0;
    if (mode == DELETE) return handles_next < handles_count;
    return asked < count_max;
}

static int busy_count(void) {
    int busy = 0;
    for (int i = 0; i < connections_count; i++) busy += all[i].state == BUSY;
    return busy;
}

static void fast(void) {
    struct epoll_event events[256];
    for (int i = 0; i < connections_count; i++)
        if (more_to_ask(now_ns())) request(&all[i], now_ns());
    while (busy_count()) {
        int ready = epoll_wait(poller, events, 256, 1000);
        if (mode == DRAIN && drained(now_ns())) break;
        for (int i = 0; i < ready; i++) {
            Connection *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) {
                struct epoll_event event = {EPOLLIN, {.ptr = c}};
                epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event);
                flush_out(c);
            }
            if (!(events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))) continue;
            readable(c);
            if (c->state != IDLE) continue;
            int64_t now = now_ns();
            if (more_to_ask(now) || c->handles_count) request(c, now);
        }
    }
}

/* A request is due every 1/rate seconds whoever has time for it; waiting for a free connection counts into its latency. */
static void paced(void) {
    struct epoll_event events[256];
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event event = {EPOLLIN, {.ptr = NULL}};
    epoll_ctl(poller, EPOLL_CTL_ADD, timer, &event);
    long number = 0;
    int at = 0;
    for (;;) {
        int64_t now = now_ns(), due = began_ns + (int64_t)((double)number / rate * 1e9);
        int over = due - began_ns >= (int64_t)(seconds * 1e9) || now - began_ns >= (int64_t)(seconds * 2e9)
                   || (mode == DELETE ? handles_next >= handles_count : asked >= count_max);
        if (over && !busy_count()) break;
        int idle = 0;
        for (int i = 0; i < connections_count && !idle; i++, at = (at + 1) % (int)connections_count)
            if (all[at].state == IDLE) { idle = 1; break; }
        if (!over && !idle && !busy_count()) break; /* Every connection saw an empty queue. */
        if (!over && idle && due <= now) {
            request(&all[at], due);
            number++;
            continue;
        }
        if (!over && idle) {
            struct itimerspec when = {{0, 0}, {due / 1000000000, due % 1000000000}};
            timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
        }
        int ready = epoll_wait(poller, events, 256, 100);
        for (int i = 0; i < ready; i++) {
            Connection *c = events[i].data.ptr;
            uint64_t ticks;
            if (!c) {
                if (read(timer, &ticks, sizeof ticks) < 0) continue;
            } else if (events[i].events & EPOLLOUT) {
                struct epoll_event both = {EPOLLIN, {.ptr = c}};
                epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &both);
                flush_out(c);
            } else readable(c);
        }
    }
}

static void read_handles(void) {
    FILE *file = fopen(handles_path, "r");
    if (!file) die(handles_path, strerror(errno));
    char *line = NULL;
    size_t room = 0, capacity = 0;
    ssize_t length;
    while ((length = getline(&line, &room, file)) > 0) {
        if ((size_t)handles_count == capacity) {
            capacity = capacity ? capacity * 2 : 65536;
            handles = realloc(handles, capacity * sizeof *handles);
        }
        handles[handles_count++] = strndup(line, (size_t)length - 1);
    }
    fclose(file);
}

static void option(char *word) {
    char *value = strchr(word, '=');
    if (!value) die("not KEY=VALUE", word);
    *value++ = 0;
    if (!strcmp(word, "connections")) connections_count = atol(value);
    else if (!strcmp(word, "batch")) batch = atol(value);
    else if (!strcmp(word, "size")) size = atol(value);
    else if (!strcmp(word, "seconds")) seconds = atof(value);
    else if (!strcmp(word, "count")) count_max = atol(value);
    else if (!strcmp(word, "rate")) rate = atof(value);
    else if (!strcmp(word, "delay")) delay = atol(value);
    else if (!strcmp(word, "groups")) groups = atol(value);
    else if (!strcmp(word, "visibility")) visibility = atol(value);
    else if (!strcmp(word, "wait")) wait_s = atol(value);
    else if (!strcmp(word, "after")) after_ms = atol(value);
    else if (!strcmp(word, "spread")) spread = atol(value);
    else if (!strcmp(word, "samples")) samples_path = value;
    else if (!strcmp(word, "handles")) handles_path = value;
    else if (!strcmp(word, "lateness")) lateness_path = value;
    else if (!strcmp(word, "due")) due_from = value;
    else die("unknown key", word);
}

static void prepare(char *address) {
    char *colon = strrchr(address, ':');
    if (!colon) die("address", address);
    snprintf(host, sizeof host, "%s", address);
    *colon = 0;
    server.sin_family = AF_INET;
    server.sin_port = htons((uint16_t)atoi(colon + 1));
    if (inet_pton(AF_INET, address, &server.sin_addr) != 1) die("not an IPv4 address", address);
    if (connections_count > CONNECTIONS_MAX || batch > BATCH_MAX) die("bounds", "too many connections or messages");
    body = malloc((size_t)size);
    for (long i = 0; i < size; i++) body[i] = (char)('a' + (i * 7 + i / 26) % 26);
    if (mode == DELETE) read_handles();
    if (mode == RECEIVE && handles_path && !(handles_out = fopen(handles_path, "w"))) die(handles_path, strerror(errno));
    poller = epoll_create1(0);
    for (int i = 0; i < connections_count; i++) {
        all[i].url = urls[i % urls_count];
        all[i].out = malloc(HEAD_BYTES + (size_t)batch * ((size_t)size + 2048) + 4096);
        all[i].in = malloc(IN_BYTES);
        open_connection(&all[i]);
    }
}

int main(int count, char **args) {
    if (count < 4) die("usage", "see the head of sqs.c");
    for (mode = 0; mode <= CREATE && strcmp(args[1], MODES[mode]); mode++) {}
    if (mode > CREATE) die("unknown mode", args[1]);
    for (int i = 4; i < count; i++) option(args[i]);
    prefix = args[3];
    for (char *url = strtok(strdup(args[3]), ","); url && urls_count < URLS_MAX; url = strtok(NULL, ",")) urls[urls_count++] = url;
    prepare(args[2]);
    began_ns = last_ns = now_ns();
    if (rate > 0) paced();
    else fast();
    if (handles_out && fclose(handles_out)) die(handles_path, strerror(errno));
    write_list(samples_path, samples, samples_count);
    write_list(lateness_path, lateness, lateness_count);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    printf("{\"client\": \"sqs.c\", \"requests\": %ld, \"messages\": %ld, \"empty_answers\": %ld, \"seconds\": %.6f, \"cpu_seconds\": %.6f}\n",
           requests, messages, empty_answers, (double)(last_ns - began_ns) / 1e9, cpu);
    return 0;
}
