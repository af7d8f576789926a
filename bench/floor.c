/* The floor under every fan-out: a server that does nothing but one blocking send() per message and reader.
 *
 *   floor PORT READERS BYTES
 *
 * It answers READERS handshakes (without checking them), sends one frame of BYTES to each for ever, and prints
 * its own CPU seconds and the messages sent when its standard input closes. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static const char HELLO[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
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

int main(int argc, char **argv) {
    if (argc != 4) { fprintf(stderr, "usage: floor PORT READERS BYTES\n"); return 2; }
    int port = atoi(argv[1]), readers = atoi(argv[2]), bytes = atoi(argv[3]), one = 1;
    signal(SIGPIPE, SIG_IGN);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) { perror("floor"); return 1; }

    int *sockets = calloc(readers, sizeof *sockets);
    for (int i = 0; i < readers; i++) sockets[i] = accept_reader(listener);

    char *frame = malloc(bytes + 4);
    frame[0] = (char)0x81; frame[1] = 126; frame[2] = bytes >> 8; frame[3] = bytes & 255;
    memset(frame + 4, 'x', bytes);
    frame[4] = '^';

    double before = cpu_seconds();
    unsigned long sent = 0;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (poll(&input, 1, 0) == 0)
        for (int i = 0; i < readers; i++) sent += send(sockets[i], frame, bytes + 4, 0) == bytes + 4;
    printf("%lu %.3f\n", sent, cpu_seconds() - before);
    return 0;
}
