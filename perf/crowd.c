/* SPDX-License-Identifier: MPL-2.0 */
/* One socket and many peers: fan-out, and what thousands of connections take and get. */

#include "bench.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <zmq.h>

static void **make_sockets (struct side *side, int type, int hwm)
{
    void **sockets = calloc ((size_t) side->job->peers, sizeof *sockets);
    check (sockets);
    for (int i = 0; i < side->job->peers; i++)
        sockets[i] = make_socket (side, type, hwm);
    return sockets;
}

static void close_sockets (struct side *side, void **sockets)
{
    for (int i = 0; i < side->job->peers; i++)
        check (zmq_close (sockets[i]) == 0);
    free (sockets);
}

/* Fan-out. */

struct delivered {
    long messages; /* by all subscribers together */
    double seconds;
    struct usage used;
};

/* Takes what a subscriber has; whether its last message was among it. */
static int take (void *socket, long *messages)
{
    char last[1];
    zmq_msg_t message;
    int over = 0;
    check (zmq_msg_init (&message) == 0);
    for (int i = 0; i < 256 && !over; i++) {
        const int size = zmq_msg_recv (&message, socket, ZMQ_DONTWAIT);
        if (size < 0) {
            check (errno == EAGAIN);
            break;
        }
        over = size == (int) sizeof last;
        *messages += !over;
    }
    check (zmq_msg_close (&message) == 0);
    return over;
}

static void subscribe (struct side *side)
{
    const int peers = side->job->peers;
    char endpoint[ENDPOINT_SIZE];
    void **sockets = make_sockets (side, ZMQ_SUB, mark_for (side->job->size * (size_t) peers));
    zmq_pollitem_t *items = calloc ((size_t) peers, sizeof *items);
    struct delivered all = {0, 0, {0, 0}};
    double begun = 0;
    check (items);
    hear_endpoint (side, endpoint);
    for (int i = 0; i < peers; i++) {
        check (zmq_setsockopt (sockets[i], ZMQ_SUBSCRIBE, "", 0) == 0);
        check (zmq_connect (sockets[i], endpoint) == 0);
        items[i].socket = sockets[i];
        items[i].events = ZMQ_POLLIN;
    }
    for (int left = peers; left > 0;) {
        check (zmq_poll (items, peers, -1) >= 0);
        if (begun == 0) {
            begun = now ();
            usage_begin (&all.used);
        }
        for (int i = 0; i < peers; i++)
            if ((items[i].revents & ZMQ_POLLIN) && take (sockets[i], &all.messages)) {
                items[i].events = 0;
                left--;
            }
    }
    all.seconds = now () - begun;
    all.used = usage_since (&all.used);
    tell (side, &all, sizeof all);
    close_sockets (side, sockets);
    free (items);
}

static void publish (struct side *side)
{
    const struct job *job = side->job;
    void *socket = make_socket (side, ZMQ_XPUB, mark_for (job->size * (size_t) job->peers));
    const int on = 1;
    char word[16];
    struct delivered all;
    struct usage used;
    char *bytes = calloc (1, job->size);
    check (bytes);
    check (zmq_setsockopt (socket, ZMQ_XPUB_VERBOSE, &on, sizeof on) == 0);
    check (zmq_setsockopt (socket, ZMQ_XPUB_NODROP, &on, sizeof on) == 0);
    bind_and_tell (side, socket);
    for (int i = 0; i < job->peers; i++)
        check (zmq_recv (socket, word, sizeof word, 0) == 1);
    usage_begin (&used);
    const double end = now () + job->ms * 1e-3;
    long sent = 0;
    do
        check (zmq_send (socket, bytes, job->size, 0) == (int) job->size);
    while (++sent < 10 || now () < end);
    check (zmq_send (socket, "", 1, 0) == 1);
    hear (side, &all, sizeof all);
    used = usage_since (&used);
    check (all.messages == sent * job->peers);
    printf ("{\"published\": %ld, \"deliveries_s\": %.3f, \"client_user_s\": %.6f, \"client_system_s\": %.6f, "
            "\"server_user_s\": %.6f, \"server_system_s\": %.6f}\n",
            sent, (double) all.messages / all.seconds, used.user, used.system, all.used.user, all.used.system);
    free (bytes);
    check (zmq_close (socket) == 0);
}

void measure_fanout (const struct job *job)
{
    check (job->size > 1);
    run_sides (job, subscribe, publish);
}

/* A crowd. */

/* What the server of a crowd knows at the end. */
struct census {
    long base, idle, active; /* KiB */
    long descriptors;        /* that the connections took */
    double idle_cpu;         /* seconds of a second in which nothing happened */
    long least, low, median, most, total; /* messages of a peer; low: all but one in a hundred have more */
    long accepted, lost;                  /* connections */
};

/* Messages that may wait in a pipe of a crowd: few, so that peers wait for the network. */
#define CROWD_HWM 16

static void idle_second (double *cpu)
{
    struct usage used;
    usage_begin (&used);
    poll (NULL, 0, 1000);
    used = usage_since (&used);
    *cpu = used.user + used.system;
}

/* Events on the monitor so far. */
static void count_events (void *monitor, struct census *census)
{
    unsigned char event[6];
    char where[ENDPOINT_SIZE];
    while (zmq_recv (monitor, event, sizeof event, ZMQ_DONTWAIT) == (int) sizeof event) {
        const int number = event[0] | event[1] << 8;
        check (zmq_recv (monitor, where, sizeof where, 0) >= 0);
        if (number == ZMQ_EVENT_ACCEPTED)
            census->accepted++;
        else
            census->lost++;
    }
}

/* Takes one message: a routing id, and what begins with the peer's number, which is returned. */
static int take_one (void *router)
{
    int number = -1, more = 1;
    size_t size = sizeof more;
    zmq_msg_t message;
    check (zmq_msg_init (&message) == 0);
    check (zmq_msg_recv (&message, router, 0) >= 0);
    check (zmq_msg_recv (&message, router, 0) >= (int) sizeof number);
    memcpy (&number, zmq_msg_data (&message), sizeof number);
    check (zmq_getsockopt (router, ZMQ_RCVMORE, &more, &size) == 0 && !more);
    check (zmq_msg_close (&message) == 0);
    return number;
}

static void count_messages (void *router, const struct job *job, struct census *census)
{
    long *of = calloc ((size_t) job->peers, sizeof *of);
    check (of);
    const double end = now () + job->ms * 1e-3;
    do {
        for (int i = 0; i < 64; i++)
            of[take_one (router)]++;
    } while (now () < end);
    census->active = resident ();
    qsort (of, (size_t) job->peers, sizeof *of, compare_longs);
    census->least = of[0];
    census->low = of[job->peers / 100];
    census->median = of[job->peers / 2];
    census->most = of[job->peers - 1];
    for (int i = 0; i < job->peers; i++)
        census->total += of[i];
    free (of);
}

static void serve_crowd (struct side *side)
{
    struct census census;
    int word = 0;
    void *router = make_socket (side, ZMQ_ROUTER, CROWD_HWM);
    void *monitor = make_socket (side, ZMQ_PAIR, 0);
    memset (&census, 0, sizeof census);
    check (zmq_socket_monitor (router, "inproc://monitor",
                               ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL
                                 | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
           == 0);
    check (zmq_connect (monitor, "inproc://monitor") == 0);
    bind_and_tell (side, router);
    census.base = resident ();
    census.descriptors = -descriptors ();
    tell (side, &word, sizeof word);
    for (int i = 0; i < side->job->peers; i++)
        take_one (router);
    tell (side, &word, sizeof word);
    hear (side, &word, sizeof word);
    count_events (monitor, &census);
    idle_second (&census.idle_cpu);
    census.idle = resident ();
    census.descriptors += descriptors ();
    tell (side, &word, sizeof word);
    count_messages (router, side->job, &census);
    count_events (monitor, &census);
    tell (side, &census, sizeof census);
    hear (side, &word, sizeof word);
    check (zmq_socket_monitor (router, NULL, 0) == 0);
    check (zmq_close (monitor) == 0);
    check (zmq_close (router) == 0);
}

static void print_crowd (const struct job *job, const struct census *there, const struct census *here,
                         double connect)
{
    const double n = job->peers;
    printf ("{\"connections\": %d, \"connect_s\": %.3f, \"accepted\": %ld, \"lost\": %ld", job->peers, connect,
            there->accepted, there->lost);
    printf (", \"server_descriptors\": %ld", there->descriptors);
    printf (", \"server_base_kib\": %ld, \"server_idle_kib\": %.2f, \"server_active_kib\": %.2f", there->base,
            (double) (there->idle - there->base) / n, (double) (there->active - there->base) / n);
    printf (", \"client_base_kib\": %ld, \"client_idle_kib\": %.2f, \"client_active_kib\": %.2f", here->base,
            (double) (here->idle - here->base) / n, (double) (here->active - here->base) / n);
    printf (", \"idle_cpu\": %.4f, \"messages\": %ld, \"messages_s\": %.1f", there->idle_cpu, there->total,
            (double) there->total / job->ms * 1e3);
    printf (", \"least\": %ld, \"low\": %ld, \"median\": %ld, \"most\": %ld}\n", there->least, there->low,
            there->median, there->most);
}

/* Sends with each in turn, those that can, until the server has had enough. */
static void flood_crowd (struct side *side, void **sockets, char *bytes)
{
    struct pollfd channel = {side->channel, POLLIN, 0};
    const int peers = side->job->peers;
    const size_t size = side->job->size;
    while (poll (&channel, 1, 0) == 0)
        for (int round = 0; round < 1 + 1000 / peers; round++)
            for (int i = 0; i < peers; i++) {
                memcpy (bytes, &i, sizeof i);
                check (zmq_send (sockets[i], bytes, size, ZMQ_DONTWAIT) >= 0 || errno == EAGAIN);
            }
}

static void be_crowd (struct side *side)
{
    const struct job *job = side->job;
    const int linger = 0;
    struct census here, there;
    char endpoint[ENDPOINT_SIZE];
    char *bytes = calloc (1, job->size);
    int word = 0;
    check (bytes);
    memset (&here, 0, sizeof here);
    hear_endpoint (side, endpoint);
    hear (side, &word, sizeof word);
    here.base = resident ();
    const double begun = now ();
    void **sockets = make_sockets (side, ZMQ_DEALER, CROWD_HWM);
    for (int i = 0; i < job->peers; i++) {
        memcpy (bytes, &i, sizeof i);
        check (zmq_setsockopt (sockets[i], ZMQ_LINGER, &linger, sizeof linger) == 0);
        check (zmq_connect (sockets[i], endpoint) == 0);
        check (zmq_send (sockets[i], bytes, job->size, 0) == (int) job->size);
    }
    hear (side, &word, sizeof word);
    const double connect = now () - begun;
    tell (side, &word, sizeof word);
    hear (side, &word, sizeof word);
    here.idle = resident ();
    flood_crowd (side, sockets, bytes);
    here.active = resident ();
    hear (side, &there, sizeof there);
    print_crowd (job, &there, &here, connect);
    tell (side, &word, sizeof word);
    close_sockets (side, sockets);
    free (bytes);
}

void measure_crowd (const struct job *job)
{
    struct rlimit files;
    check (job->size >= sizeof (int));
    check (getrlimit (RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    check (setrlimit (RLIMIT_NOFILE, &files) == 0);
    run_sides (job, serve_crowd, be_crowd);
}
