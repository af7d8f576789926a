/* The load of every benchmark, the same for every server: websocket readers and the publisher that feeds them.
 *
 *   load PORT READERS TOPICS TOPICS-PER-READER FEED-PORT FOLDER
 *
 * Reader i reads the i-th group of TOPICS-PER-READER topics (modulo TOPICS); topics are published in turn, so that
 * those of a reader follow each other. FOLDER holds templates; what is absent is not sent:
 *   path       of the websocket                 headers    of its request, each with its end of line
 *   first      sent once as a text frame        subscribe  sent once a topic
 *   ready      a text that must have come back (once a topic where there is `subscribe`, else once)
 *   hello      sent to the feed at first        values     8 bytes a topic
 *   command    one publish, and `single` what is published at a rate; a `^` marks each of its events
 * Fields of a template are overwritten: {TTT} the topic's number, {VVVVVV} its value, {SSSSSSSS} a running number,
 * {PPPPPPPP} one of each topic's own from 1 on, {CCCCCCCCCCCCCC} the clock in microseconds. In what readers receive, `^` and a clock are counted as one event.
 *
 * It prints "ready SECONDS" (of connecting), then answers each line "WINDOW RATE SECONDS [SILENCE]" of its input: with
 * a WINDOW it keeps so many events in flight, else it publishes RATE events a second, however late they get through.
 * The answer: deliveries, bytes, events published, reads, p50, p99 and the largest latency in ms, own CPU seconds,
 * how often a window was opened anew as nothing had come for a second, and the events now in flight. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MARKER '^' /* not '~', which is 126, the length byte of every middle-sized frame */
#define GROUP 64   /* connections opened side by side */
#define PATIENCE 30 /* seconds for any answer while connecting */
#define SUB 64     /* buckets of latency between one power of two and the next */

struct template { char *text; size_t size; size_t topics[2048], values[8], numbers[8], places[8], clocks[2048]; int t, v, s, p, c, events; };

static char buffer[1 << 20];
static unsigned long deliveries, received, reads, published, resets, histogram[64 * SUB];
static double largest;
static char *values;
static unsigned long number, *places;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void fail(const char *what) {
    fprintf(stderr, "load: %s\n", what);
    exit(1);
}

/* Templates */

static char *slurp(const char *folder, const char *name, size_t *size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    char *text = malloc(1 << 24);
    *size = fread(text, 1, (1 << 24) - 1, file);
    text[*size] = 0;
    fclose(file);
    return text;
}

static int fields(struct template *it, const char *name, size_t *at) {
    int found = 0;
    size_t size = strlen(name);
    for (char *p = it->text; (p = memmem(p, it->text + it->size - p, name, size)); p += size) at[found++] = p - it->text;
    return found;
}

static struct template *read_template(const char *folder, const char *name) {
    struct template *it = calloc(1, sizeof *it);
    it->text = slurp(folder, name, &it->size);
    if (!it->text) return NULL;
    it->t = fields(it, "{TTT}", it->topics);
    it->v = fields(it, "{VVVVVV}", it->values);
    it->s = fields(it, "{SSSSSSSS}", it->numbers);
    it->p = fields(it, "{PPPPPPPP}", it->places);
    it->c = fields(it, "{CCCCCCCCCCCCCC}", it->clocks);
    for (char *p = it->text; (p = memchr(p, MARKER, it->text + it->size - p)); p++) it->events++;
    return it;
}

static void digits(char *at, unsigned long value, int width) {
    while (width--) at[width] = '0' + value % 10, value /= 10;
}

static void render(struct template *it, int topic, double clock) {
    for (int i = 0; i < it->t; i++) digits(it->text + it->topics[i], topic, 5);
    for (int i = 0; i < it->v; i++) memcpy(it->text + it->values[i], values + 8 * topic, 8);
    if (it->s) number++;
    for (int i = 0; i < it->s; i++) digits(it->text + it->numbers[i], number, 10);
    if (it->p) places[topic]++;
    for (int i = 0; i < it->p; i++) digits(it->text + it->places[i], places[topic], 10);
    if (!it->c) return;
    digits(it->text + it->clocks[0], clock * 1e6, 16);
    for (int i = 1; i < it->c; i++) memcpy(it->text + it->clocks[i], it->text + it->clocks[0], 16);
}

/* Readers */

static int bucket(double ms) {
    unsigned long us = ms * 1000;
    if (us < SUB) return us;
    int power = 63 - __builtin_clzl(us);
    int at = (power - 5) * SUB + (us >> (power - 6)) - SUB;
    return at < 64 * SUB ? at : 64 * SUB - 1;
}

static double middle(int at) {
    if (at < SUB) return at / 1000.0;
    int power = at / SUB + 5;
    return ((unsigned long)(at % SUB + SUB) << (power - 6)) / 1000.0;
}

static double quantile(double share) {
    unsigned long all = 0, seen = 0;
    for (int i = 0; i < 64 * SUB; i++) all += histogram[i];
    for (int i = 0; i < 64 * SUB; i++)
        if ((seen += histogram[i]) > all * share) return middle(i);
    return 0;
}

static void count(const char *data, ssize_t size) {
    const char *end = data + size;
    double at = now() * 1000;
    received += size;
    reads++;
    for (; (data = memchr(data, MARKER, end - data)); data++) {
        deliveries++;
        if (end - data <= 16) continue; /* its clock is in the next read */
        unsigned long clock = 0;
        for (int i = 1; i <= 16; i++) clock = clock * 10 + (data[i] - '0');
        double ms = at - clock / 1000.0;
        histogram[bucket(ms < 0 ? 0 : ms)]++;
        if (ms > largest) largest = ms;
    }
}

static void expect(int socket, const char *what, int times) {
    static char text[1 << 20];
    size_t have = 0, size = strlen(what);
    while (have < sizeof text - 1) {
        ssize_t got = read(socket, text + have, sizeof text - 1 - have);
        if (got <= 0) { text[have] = 0; fprintf(stderr, "load: %s before %s, after: %s\n", got ? strerror(errno) : "closed", what, text); exit(1); }
        have += got;
        int found = 0;
        for (char *p = text; (p = memmem(p, text + have - p, what, size)); p += size) found++;
        if (found >= times) return;
    }
    fail("what was expected did not come");
}

static void write_all(int socket, const char *data, size_t size) {
    while (size) {
        ssize_t put = write(socket, data, size);
        if (put < 0) { perror("load"); exit(1); }
        data += put, size -= put;
    }
}

static void send_text(int socket, const char *text, size_t size) {
    static char frame[1 << 16];
    size_t head = size < 126 ? 6 : 8;
    frame[0] = (char)0x81;
    if (size < 126) frame[1] = (char)(0x80 | size);
    else frame[1] = (char)0xfe, frame[2] = size >> 8, frame[3] = size & 255;
    memset(frame + head - 4, 0, 4); /* masked with zeros */
    memcpy(frame + head, text, size);
    write_all(socket, frame, head + size);
}

static int dial(int port) {
    int it = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(it, (void *)&address, sizeof address)) { perror("load: connect"); exit(1); }
    struct timeval patience = {.tv_sec = PATIENCE};
    setsockopt(it, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(it, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return it;
}

static void open_readers(const char *folder, int port, int readers, int topics, int each, int poller) {
    struct template *path = read_template(folder, "path"), *first = read_template(folder, "first");
    struct template *subscribe = read_template(folder, "subscribe"), *ready = read_template(folder, "ready");
    struct template *headers = read_template(folder, "headers");
    for (int start = 0; start < readers; start += GROUP) {
        int sockets[GROUP], size = readers - start < GROUP ? readers - start : GROUP;
        for (int i = 0; i < size; i++) {
            char request[8192];
            render(path, (start + i) * each % topics, 0);
            int length = snprintf(request, sizeof request,
                "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n%s\r\n", path->text,
                headers ? headers->text : "");
            write_all(sockets[i] = dial(port), request, length);
        }
        for (int i = 0; i < size; i++) {
            expect(sockets[i], "\r\n\r\n", 1);
            if (first) send_text(sockets[i], first->text, first->size);
            for (int k = 0; subscribe && k < each; k++) {
                render(subscribe, ((start + i) * each + k) % topics, 0);
                send_text(sockets[i], subscribe->text, subscribe->size);
            }
        }
        for (int i = 0; i < size; i++) {
            if (ready) expect(sockets[i], ready->text, subscribe ? each : 1);
            fcntl(sockets[i], F_SETFL, O_NONBLOCK);
            struct epoll_event event = {.events = EPOLLIN, .data.fd = sockets[i]};
            epoll_ctl(poller, EPOLL_CTL_ADD, sockets[i], &event);
        }
    }
}

/* The publisher */

static char *pending;
static size_t pending_size, pending_sent;

static int flush_feed(int feed) {
    while (pending_sent < pending_size) {
        ssize_t put = write(feed, pending + pending_sent, pending_size - pending_sent);
        if (put < 0 && errno == EAGAIN) return 0;
        if (put < 0) { perror("load: feed"); exit(1); }
        pending_sent += put;
    }
    pending_size = pending_sent = 0;
    return 1;
}

static void publish(struct template *command, int topic, double clock) {
    render(command, topic, clock);
    memcpy(pending + pending_size, command->text, command->size);
    pending_size += command->size;
    published += command->events;
}

int main(int argc, char **argv) {
    if (argc != 7) { fprintf(stderr, "usage: load PORT READERS TOPICS TOPICS-PER-READER FEED-PORT FOLDER\n"); return 2; }
    int port = atoi(argv[1]), readers = atoi(argv[2]), topics = atoi(argv[3]), each = atoi(argv[4]);
    int poller = epoll_create1(0), feed = -1, next = 0;
    size_t size;
    signal(SIGPIPE, SIG_IGN);
    values = slurp(argv[6], "values", &size);
    places = calloc(topics, sizeof *places);
    struct template *command = read_template(argv[6], "command"), *single = read_template(argv[6], "single");
    if (!single) single = command;
    double began = now();
    open_readers(argv[6], port, readers, topics, each, poller);
    double fan = (double)readers * each / topics; /* readers of a topic */
    printf("ready %.3f\n", now() - began);
    fflush(stdout);

    struct epoll_event input = {.events = EPOLLIN, .data.fd = 0};
    epoll_ctl(poller, EPOLL_CTL_ADD, 0, &input);
    if (command) {
        char *hello = slurp(argv[6], "hello", &size);
        feed = dial(atoi(argv[5]));
        if (hello) write_all(feed, hello, size);
        fcntl(feed, F_SETFL, O_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = feed};
        epoll_ctl(poller, EPOLL_CTL_ADD, feed, &event);
        pending = malloc((1 << 20) + 2 * command->size);
    }

    static struct epoll_event events[1024];
    double window = 0, rate = 0, until = 0, due = 0, cpu = 0, heard = 0;
    double lost = 0; /* events whose deliveries are not waited for any more */
    unsigned long before_deliveries = 0, before_received = 0, before_reads = 0, before_published = 0;
    for (;;) {
        int busy = until && command && (rate > 0 ? due - now() < 0.001 : pending_size > 0);
        int found = epoll_wait(poller, events, 1024, busy ? 0 : 1);
        for (int i = 0; i < found; i++) {
            int from = events[i].data.fd;
            ssize_t got = read(from, buffer, from == 0 ? sizeof buffer - 1 : sizeof buffer);
            if (from == 0) {
                if (got <= 0) return 0;
                double seconds;
                buffer[got] = 0;
                if (sscanf(buffer, "%lf %lf %lf", &window, &rate, &seconds) != 3) fail("expected WINDOW RATE SECONDS");
                memset(histogram, 0, sizeof histogram);
                largest = resets = 0;
                before_deliveries = deliveries, before_received = received, before_reads = reads;
                before_published = published;
                cpu = cpu_seconds(), due = heard = now(), until = due + seconds;
            } else if (from == feed) {
                if (got <= 0 && errno != EAGAIN) fail("the feed was closed");
                if (got > 0 && (buffer[0] == '-' || memmem(buffer, got, "\r\n-", 3))) {
                    fprintf(stderr, "load: the feed answered %.*s\n", (int)(got < 300 ? got : 300), buffer);
                    return 1;
                }
            } else if (got == 4 && !memcmp(buffer, "\x81\x02{}", 4)) {
                send_text(from, "{}", 2); /* a ping of the Centrifuge protocol; nobody else sends such a message */
            } else if (got > 0) {
                count(buffer, got);
                heard = now();
            } else if (got == 0 || errno != EAGAIN) {
                fail("a reader was closed");
            }
        }
        if (!until) continue;
        double at = now();
        if (at >= until) {
            printf("%lu %lu %lu %lu %.3f %.3f %.3f %.3f %lu %.0f\n", deliveries - before_deliveries,
                   received - before_received, published - before_published, reads - before_reads, quantile(0.5),
                   quantile(0.99), largest, cpu_seconds() - cpu, resets, published - lost - deliveries / fan);
            fflush(stdout);
            until = 0;
            continue;
        }
        if (!command || !flush_feed(feed)) continue;
        if (window > 0) {
            if (at - heard > 1) lost = published - deliveries / fan, heard = at, resets++;
            while (published - lost - deliveries / fan + command->events <= window && pending_size < 1 << 16) {
                publish(command, next, at);
                next = (next + 1) % topics;
            }
        } else if (rate > 0) {
            for (; due <= at && pending_size < 1 << 16; due += single->events / rate, next = (next + 1) % topics)
                publish(single, next, due);
        }
        flush_feed(feed);
    }
}
