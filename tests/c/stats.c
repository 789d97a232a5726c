/* SPDX-License-Identifier: MPL-2.0 */
/*  The counters of zmq_rdma.h as a C program reads them: a server and a client
    in one process; what they send is counted on both links. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>
#include <zmq_rdma.h>

#define MESSAGES 100
#define SIZE 1000
#define BYTES ((uint64_t) MESSAGES * SIZE)

static void check (int condition_, const char *what_)
{
    if (!condition_) {
        fprintf (stderr, "%s: %s\n", what_, zmq_strerror (zmq_errno ()));
        exit (1);
    }
}

static void *open_socket (void *ctx_, int type_)
{
    const int wait = 30000;
    void *socket = zmq_socket (ctx_, type_);
    check (socket != NULL, "zmq_socket");
    check (zmq_setsockopt (socket, ZMQ_RCVTIMEO, &wait, sizeof (wait)) == 0,
           "ZMQ_RCVTIMEO");
    check (zmq_setsockopt (socket, ZMQ_SNDTIMEO, &wait, sizeof (wait)) == 0,
           "ZMQ_SNDTIMEO");
    return socket;
}

static zmq_rdma_stats_t process (void)
{
    zmq_rdma_stats_t stats;
    stats.size = sizeof (stats);
    check (zmq_rdma_stats (&stats) == 0, "zmq_rdma_stats");
    check (stats.size == sizeof (stats), "the size that was filled");
    return stats;
}

static void exchange (void *pull_, void *push_)
{
    char message[SIZE];
    int i;
    memset (message, 'x', sizeof (message));
    for (i = 0; i < MESSAGES; ++i)
        check (zmq_send (push_, message, SIZE, 0) == SIZE, "zmq_send");
    for (i = 0; i < MESSAGES; ++i)
        check (zmq_recv (pull_, message, SIZE, 0) == SIZE, "zmq_recv");
}

static void look_at_links (const char *port_)
{
    zmq_rdma_link_stats_t links[3];
    int i;
    memset (links, 0x77, sizeof (links));
    check (zmq_rdma_links (NULL, 0, sizeof (links[0])) == 2, "two links");
    check (zmq_rdma_links (links, 1, sizeof (links[0])) == 2, "room for one");
    check (links[1].id == 0x7777777777777777u, "no more than there is room");
    check (zmq_rdma_links (links, 3, sizeof (links[0])) == 2, "room for all");
    check (links[0].id < links[1].id, "oldest first");
    check (links[0].accepted + links[1].accepted == 1, "one side accepted");
    for (i = 0; i < 2; ++i) {
        const zmq_rdma_link_stats_t *link = &links[i];
        const char *service = link->accepted ? link->local : link->peer;
        const uint64_t bytes = link->accepted ? link->counters.bytes_received
                                              : link->counters.bytes_sent;
        const uint64_t frames = link->accepted ? link->counters.data_received
                                               : link->counters.data_sent;
        printf ("%s %s -> %s: %lu bytes in %lu frames, %u credits\n",
                link->device, link->local, link->peer, (unsigned long) bytes,
                (unsigned long) frames, link->credits);
        check (link->state == ZMQ_RDMA_LINK_OPEN, "open");
        check (strlen (link->device) > 0, "a device");
        check (strlen (service) > strlen (port_)
                 && strcmp (service + strlen (service) - strlen (port_), port_)
                      == 0,
               "the port that users know");
        check (bytes > BYTES && bytes < BYTES + BYTES / 10, "bytes");
        check (frames > 0 && frames <= bytes, "frames");
        check (link->messages.sent == (link->accepted ? 0 : MESSAGES)
                 && link->messages.received == (link->accepted ? MESSAGES : 0),
               "messages");
        check (link->since > 0 && link->slot > 0, "since, slot");
    }
}

int main (void)
{
    char endpoint[256];
    size_t size = sizeof (endpoint);
    zmq_rdma_stats_t stats;
    void *ctx = zmq_ctx_new ();
    void *pull = open_socket (ctx, ZMQ_PULL);
    void *push = open_socket (ctx, ZMQ_PUSH);

    check (process ().links == 0, "no link yet");
    check (zmq_bind (pull, "rdma://127.0.0.1:*") == 0, "zmq_bind");
    check (zmq_getsockopt (pull, ZMQ_LAST_ENDPOINT, endpoint, &size) == 0,
           "ZMQ_LAST_ENDPOINT");
    check (zmq_connect (push, endpoint) == 0, "zmq_connect");
    exchange (pull, push);

    stats = process ();
    check (stats.links == 2 && stats.accepted == 1 && stats.connected == 1,
           "links");
    check (stats.died == 0 && stats.closed == 0, "none has ended");
    check (stats.counters.bytes_sent == stats.counters.bytes_received,
           "both ends are counted");
    check (stats.pinned + stats.unpinned > 0, "memory");
    look_at_links (strrchr (endpoint, ':'));

    zmq_close (push);
    zmq_close (pull);
    zmq_ctx_term (ctx);
    stats = process ();
    check (stats.links == 0 && stats.closed == 2 && stats.died == 0,
           "closed in good order");
    check (stats.counters.bytes_sent > BYTES, "what is gone stays counted");
    check (stats.messages.sent == MESSAGES
             && stats.messages.received == MESSAGES,
           "messages of those that are gone");
    return 0;
}
