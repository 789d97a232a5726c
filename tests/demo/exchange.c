/* SPDX-License-Identifier: MPL-2.0 */

/*  Two processes talk over rdma:// and, in the same run, over tcp://: round
    trips (REQ/REP), then a stream of messages (PUSH/PULL), each checked where
    it arrives. usage: exchange [ADDRESS]  */

#include <zmq.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct
{
    size_t size;
    int round_trips;
    int messages;
} load_t;

static const load_t loads[] = {
  {64, 2000, 200000},
  {1024, 2000, 100000},
  {65536, 500, 4000},
  {1048576, 100, 200},
};

enum
{
    LOADS = sizeof loads / sizeof loads[0],
    SCHEMES = 2,
    /*  The schemes take turns, and the median of the rounds is told.  */
    ROUNDS = 5
};

static const char *const schemes[SCHEMES] = {"rdma", "tcp"};

typedef struct
{
    double median_us;
    double p99_us;
    double messages_s;
    double megabytes_s;
} result_t;

/*  What the client asks of the server.  */
typedef struct
{
    char what; /* 'E': echo this, 'S': take in a stream, 'Q': end */
    uint32_t size;
    int32_t count;
} request_t;

static void die (const char *format, ...)
{
    va_list args;
    va_start (args, format);
    fprintf (stderr, "exchange: ");
    vfprintf (stderr, format, args);
    fprintf (stderr, "\n");
    va_end (args);
    exit (1);
}

static void need (int ok, const char *what)
{
    if (!ok)
        die ("%s: %s", what, zmq_strerror (zmq_errno ()));
}

static double now_us (void)
{
    struct timespec t;
    clock_gettime (CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/*  A message says its place in the stream at both ends.  */
static void mark (unsigned char *data, size_t size, uint32_t number)
{
    memcpy (data, &number, sizeof number);
    memcpy (data + size - sizeof number, &number, sizeof number);
}

static int is_marked (const unsigned char *data, size_t size, uint32_t number)
{
    return memcmp (data, &number, sizeof number) == 0
           && memcmp (data + size - sizeof number, &number, sizeof number) == 0;
}

static void *open_socket (void *ctx, int type)
{
    /*  Nothing here may wait for ever.  */
    const int patience_ms = 30000;
    void *socket = zmq_socket (ctx, type);
    need (socket != NULL, "zmq_socket");
    zmq_setsockopt (socket, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
    zmq_setsockopt (socket, ZMQ_SNDTIMEO, &patience_ms, sizeof patience_ms);
    zmq_setsockopt (socket, ZMQ_LINGER, &patience_ms, sizeof patience_ms);
    return socket;
}

static void take_stream (void *pull, const request_t *request)
{
    int32_t i;
    for (i = 0; i < request->count; i++) {
        zmq_msg_t msg;
        zmq_msg_init (&msg);
        need (zmq_msg_recv (&msg, pull, 0) >= 0, "receive");
        if (zmq_msg_size (&msg) != request->size
            || !is_marked (zmq_msg_data (&msg), request->size, (uint32_t) i))
            die ("message %d is not the one that was sent", (int) i);
        zmq_msg_close (&msg);
    }
}

/*  The server process: tells through `out` where it listens, then obeys.  */
static void serve (const char *scheme, const char *address, int out)
{
    void *ctx = zmq_ctx_new ();
    void *rep = open_socket (ctx, ZMQ_REP);
    void *pull = open_socket (ctx, ZMQ_PULL);
    char endpoint[2][256];
    size_t size = sizeof endpoint[0];
    char wildcard[256];
    request_t request;

    snprintf (wildcard, sizeof wildcard, "%s://%s:*", scheme, address);
    need (zmq_bind (rep, wildcard) == 0, wildcard);
    need (zmq_bind (pull, wildcard) == 0, wildcard);
    zmq_getsockopt (rep, ZMQ_LAST_ENDPOINT, endpoint[0], &size);
    size = sizeof endpoint[1];
    zmq_getsockopt (pull, ZMQ_LAST_ENDPOINT, endpoint[1], &size);
    if (write (out, endpoint, sizeof endpoint) != (ssize_t) sizeof endpoint)
        die ("cannot tell the endpoint");
    close (out);

    do {
        zmq_msg_t msg;
        zmq_msg_init (&msg);
        need (zmq_msg_recv (&msg, rep, 0) >= (int) sizeof request, "request");
        memcpy (&request, zmq_msg_data (&msg), sizeof request);
        if (request.what == 'S') {
            /*  Once to say go, once to say that all came.  */
            need (zmq_send (rep, "", 0, 0) == 0, "reply");
            take_stream (pull, &request);
            need (zmq_recv (rep, NULL, 0, 0) == 0, "request");
        }
        need (zmq_msg_send (&msg, rep, 0) >= 0, "reply");
    } while (request.what != 'Q');
    zmq_close (rep);
    zmq_close (pull);
    zmq_ctx_term (ctx);
}

static int ascending (const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static void ask (void *req, const request_t *request)
{
    zmq_msg_t msg;
    need (zmq_send (req, request, sizeof *request, 0) >= 0, "request");
    zmq_msg_init (&msg);
    need (zmq_msg_recv (&msg, req, 0) >= 0, "reply");
    zmq_msg_close (&msg);
}

/*  `device` gets the name of the device that carried the last reply.  */
static void
round_trips (void *req, const load_t *load, result_t *result, char *device, size_t device_size)
{
    const int warm_up = load->round_trips / 10;
    double *took = malloc (sizeof *took * (size_t) load->round_trips);
    int i;
    if (!took)
        die ("out of memory");
    for (i = -warm_up; i < load->round_trips; i++) {
        request_t request = {'E', 0, 0};
        zmq_msg_t msg;
        const char *name;
        double start;
        zmq_msg_init_size (&msg, load->size);
        memset (zmq_msg_data (&msg), i & 0xff, load->size);
        memcpy (zmq_msg_data (&msg), &request, sizeof request);
        start = now_us ();
        need (zmq_msg_send (&msg, req, 0) >= 0, "send");
        zmq_msg_init (&msg);
        need (zmq_msg_recv (&msg, req, 0) >= 0, "receive");
        if (i >= 0)
            took[i] = now_us () - start;
        if (zmq_msg_size (&msg) != load->size
            || ((unsigned char *) zmq_msg_data (&msg))[load->size - 1] != (i & 0xff))
            die ("round trip %d brought back something else", i);
        name = zmq_msg_gets (&msg, "Rdma-Device");
        snprintf (device, device_size, "%s", name ? name : "-");
        zmq_msg_close (&msg);
    }
    qsort (took, (size_t) load->round_trips, sizeof *took, ascending);
    result->median_us = took[load->round_trips / 2];
    result->p99_us = took[load->round_trips * 99 / 100];
    free (took);
}

static void stream (void *req, void *push, const load_t *load, result_t *result)
{
    const request_t request = {'S', (uint32_t) load->size, load->messages};
    double start, seconds;
    int i;
    ask (req, &request);
    start = now_us ();
    for (i = 0; i < load->messages; i++) {
        zmq_msg_t msg;
        zmq_msg_init_size (&msg, load->size);
        mark (zmq_msg_data (&msg), load->size, (uint32_t) i);
        need (zmq_msg_send (&msg, push, 0) >= 0, "send");
    }
    need (zmq_send (req, NULL, 0, 0) == 0, "request");
    {
        zmq_msg_t msg;
        zmq_msg_init (&msg);
        need (zmq_msg_recv (&msg, req, 0) >= 0, "reply");
        zmq_msg_close (&msg);
    }
    seconds = (now_us () - start) / 1e6;
    result->messages_s = load->messages / seconds;
    result->megabytes_s = result->messages_s * (double) load->size / 1e6;
}

typedef struct
{
    pid_t server;
    void *req;
    void *push;
    char device[128];
    result_t results[LOADS][ROUNDS];
} side_t;

static void start (side_t *side, void *ctx, const char endpoint[2][256])
{
    side->req = open_socket (ctx, ZMQ_REQ);
    side->push = open_socket (ctx, ZMQ_PUSH);
    need (zmq_connect (side->req, endpoint[0]) == 0, endpoint[0]);
    need (zmq_connect (side->push, endpoint[1]) == 0, endpoint[1]);
}

static void stop (side_t *side)
{
    const request_t quit = {'Q', 0, 0};
    int status;
    ask (side->req, &quit);
    zmq_close (side->req);
    zmq_close (side->push);
    if (waitpid (side->server, &status, 0) < 0 || status != 0)
        die ("the server process failed");
}

static double median (const side_t *side, int load, size_t offset)
{
    double values[ROUNDS];
    int i;
    for (i = 0; i < ROUNDS; i++)
        memcpy (&values[i], (const char *) &side->results[load][i] + offset, sizeof values[i]);
    qsort (values, ROUNDS, sizeof *values, ascending);
    return values[ROUNDS / 2];
}

static result_t medians (const side_t *side, int load)
{
    result_t r;
    r.median_us = median (side, load, offsetof (result_t, median_us));
    r.p99_us = median (side, load, offsetof (result_t, p99_us));
    r.messages_s = median (side, load, offsetof (result_t, messages_s));
    r.megabytes_s = median (side, load, offsetof (result_t, megabytes_s));
    return r;
}

static void report (const side_t *sides)
{
    int l, s;
    printf ("%9s  %-8s %12s %12s %12s %10s\n", "bytes", "over", "round trip",
            "99 of 100", "messages/s", "MB/s");
    for (l = 0; l < LOADS; l++) {
        const result_t results[SCHEMES] = {medians (&sides[0], l), medians (&sides[1], l)};
        for (s = 0; s < SCHEMES; s++) {
            const result_t *r = &results[s];
            printf ("%9lu  %-8s %9.1f us %9.1f us %12.0f %10.1f\n",
                    (unsigned long) loads[l].size, schemes[s], r->median_us,
                    r->p99_us, r->messages_s, r->megabytes_s);
        }
        printf ("%9s  %-8s %9.2f x  %24.2f x\n", "", "rdma/tcp",
                results[0].median_us / results[1].median_us,
                results[0].messages_s / results[1].messages_s);
    }
}

int main (int argc, char **argv)
{
    const char *address = argc > 1 ? argv[1] : "127.0.0.1";
    char endpoints[SCHEMES][2][256];
    side_t sides[SCHEMES];
    void *ctx;
    int s, l, round;

    if (!zmq_has ("rdma"))
        die ("the libzmq loaded here has no rdma://");
    /*  The servers are forked before this process has a context.  */
    for (s = 0; s < SCHEMES; s++) {
        int ends[2];
        if (pipe (ends) != 0 || (sides[s].server = fork ()) < 0)
            die ("cannot start a process");
        if (sides[s].server == 0) {
            close (ends[0]);
            serve (schemes[s], address, ends[1]);
            return 0;
        }
        close (ends[1]);
        if (read (ends[0], endpoints[s], sizeof endpoints[s]) != (ssize_t) sizeof endpoints[s])
            die ("the server process did not start");
        close (ends[0]);
    }

    ctx = zmq_ctx_new ();
    for (s = 0; s < SCHEMES; s++)
        start (&sides[s], ctx, (const char (*)[256]) endpoints[s]);
    for (l = 0; l < LOADS; l++)
        for (round = 0; round < ROUNDS; round++)
            for (s = 0; s < SCHEMES; s++) {
                result_t *result = &sides[s].results[l][round];
                round_trips (sides[s].req, &loads[l], result,
                             sides[s].device, sizeof sides[s].device);
                stream (sides[s].req, sides[s].push, &loads[l], result);
            }
    printf ("Process %ld with process %ld at %s\n", (long) getpid (),
            (long) sides[0].server, endpoints[0][0]);
    printf ("RDMA device: %s\n\n", sides[0].device);
    for (s = 0; s < SCHEMES; s++)
        stop (&sides[s]);
    zmq_ctx_term (ctx);
    report (sides);
    return 0;
}
