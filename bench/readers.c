/* Many websocket readers, far cheaper than any server: they count one marker character in what arrives.
 *
 *   readers PORT COUNT [FIRST-FRAME [READY]]
 *
 * Each opens /connection/websocket, sends FIRST-FRAME as one text frame, and counts as ready once READY was seen
 * in what it received (without the arguments: once the handshake was answered). When all are, "ready" is printed.
 * Then each input line with a number of seconds is answered by "<markers> <bytes>" of that time. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MARKER '^' /* not '~', which is 126, the length byte of every middle-sized frame */
static const char REQUEST[] = "GET /connection/websocket HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
                              "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                              "Sec-WebSocket-Version: 13\r\n\r\n";
static char buffer[1 << 18];
static unsigned long markers, received;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void count(const char *data, ssize_t size) {
    received += size;
    for (const char *at = data, *end = data + size; (at = memchr(at, MARKER, end - at)); at++) markers++;
}

static void expect(int socket, const char *what) {
    size_t have = 0;
    while (have < sizeof buffer - 1) {
        ssize_t got = read(socket, buffer + have, sizeof buffer - 1 - have);
        if (got <= 0) { fprintf(stderr, "readers: the server closed before %s\n", what); exit(1); }
        have += got;
        buffer[have] = 0;
        if (memmem(buffer, have, what, strlen(what))) return;
    }
    fprintf(stderr, "readers: %s did not come\n", what);
    exit(1);
}

static void send_text(int socket, const char *text) {
    size_t size = strlen(text), head = 8;
    unsigned char frame[2048] = {0x81, 0x80 | 126, size >> 8, size & 255}; /* masked with zeros */
    memcpy(frame + head, text, size);
    if (write(socket, frame, head + size) < 0) { perror("readers"); exit(1); }
}

static int open_reader(int port, const char *first, const char *ready) {
    int reader = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(reader, (void *)&address, sizeof address)) { perror("readers"); exit(1); }
    setsockopt(reader, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (write(reader, REQUEST, sizeof REQUEST - 1) < 0) exit(1);
    expect(reader, "\r\n\r\n");
    if (first) { send_text(reader, first); expect(reader, ready); }
    fcntl(reader, F_SETFL, O_NONBLOCK);
    return reader;
}

int main(int argc, char **argv) {
    if (argc != 3 && argc != 5) { fprintf(stderr, "usage: readers PORT COUNT [FIRST-FRAME READY]\n"); return 2; }
    int port = atoi(argv[1]), readers = atoi(argv[2]), poller = epoll_create1(0);
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < readers; i++) {
        struct epoll_event event = {.events = EPOLLIN};
        event.data.fd = open_reader(port, argc == 5 ? argv[3] : NULL, argc == 5 ? argv[4] : NULL);
        epoll_ctl(poller, EPOLL_CTL_ADD, event.data.fd, &event);
    }
    struct epoll_event input = {.events = EPOLLIN, .data.fd = 0};
    epoll_ctl(poller, EPOLL_CTL_ADD, 0, &input);
    puts("ready");
    fflush(stdout);

    static struct epoll_event events[4096];
    double until = 0;
    for (;;) {
        int found = epoll_wait(poller, events, 4096, 10);
        for (int i = 0; i < found; i++) {
            ssize_t got = read(events[i].data.fd, buffer, sizeof buffer - 1);
            if (events[i].data.fd != 0) {
                if (got > 0) count(buffer, got);
                else if (got == 0 || errno != EAGAIN) { fprintf(stderr, "readers: a reader was closed\n"); return 1; }
            } else if (got <= 0) {
                return 0;
            } else {
                buffer[got] = 0;
                markers = received = 0;
                until = now() + atof(buffer);
            }
        }
        if (until && now() >= until) {
            printf("%lu %lu\n", markers, received);
            fflush(stdout);
            until = 0;
        }
    }
}
