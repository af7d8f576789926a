/* The floor under every fan-out: a C loop of blocking send()s.
 *
 *   floor each|joined PORT FEED-PORT READERS
 *
 * It answers READERS handshakes (without checking them), then sends every line of its feed to each as one frame:
 * with one send() per message and reader, or with one per reader for all messages that one read of the feed gave. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char HELLO[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

static int listen_on(int port) {
    int it = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(it, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(it, (void *)&address, sizeof address) || listen(it, 4096)) { perror("floor"); exit(1); }
    return it;
}

static int accept_reader(int listener) {
    char request[4096];
    int reader = accept(listener, NULL, NULL), one = 1;
    setsockopt(reader, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (size_t have = 0; have < sizeof request - 1;) {
        ssize_t got = read(reader, request + have, sizeof request - 1 - have);
        if (got <= 0) exit(1);
        have += got;
        request[have] = 0;
        if (strstr(request, "\r\n\r\n")) break;
    }
    if (write(reader, HELLO, sizeof HELLO - 1) < 0) exit(1);
    return reader;
}

static size_t frame(char *out, const char *text, size_t size) {
    size_t head = size < 126 ? 2 : 4;
    out[0] = (char)0x81;
    if (head == 2) out[1] = size;
    else out[1] = 126, out[2] = size >> 8, out[3] = size & 255;
    memcpy(out + head, text, size);
    return head + size;
}

int main(int argc, char **argv) {
    if (argc != 5) { fprintf(stderr, "usage: floor each|joined PORT FEED-PORT READERS\n"); return 2; }
    int joined = !strcmp(argv[1], "joined"), readers = atoi(argv[4]);
    signal(SIGPIPE, SIG_IGN);
    int feed_listener = listen_on(atoi(argv[3])), listener = listen_on(atoi(argv[2]));
    int *sockets = calloc(readers, sizeof *sockets);
    for (int i = 0; i < readers; i++) sockets[i] = accept_reader(listener);
    int feed = accept(feed_listener, NULL, NULL);

    static char in[1 << 16], out[1 << 18];
    size_t have = 0;
    for (ssize_t got; (got = read(feed, in + have, 16384)) > 0;) {
        have += got;
        char *line = in;
        size_t size = 0;
        for (char *end; (end = memchr(line, '\n', in + have - line)); line = end + 1) {
            size += frame(out + size, line, end - line);
            if (joined) continue;
            for (int i = 0; i < readers; i++) if (send(sockets[i], out, size, 0) < 0) return 1;
            size = 0;
        }
        for (int i = 0; size && i < readers; i++) if (send(sockets[i], out, size, 0) < 0) return 1;
        memmove(in, line, have -= line - in);
    }
    return 0;
}
