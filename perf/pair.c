/* SPDX-License-Identifier: MPL-2.0 */
/* Two sockets, or several pairs of them: latency and throughput. */

#include "bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

/* Round trips that are counted at most. */
#define TRIPS 400000
/* Round trips that are not, at first. */
#define WARM_UP 20

/* What a receiver knows at the end. */
struct received {
    long messages; /* between the first and the last */
    double seconds;
    struct usage used;
};

static void send_message (void *socket, size_t size)
{
    zmq_msg_t message;
    check (zmq_msg_init_size (&message, size) == 0);
    check (zmq_msg_send (&message, socket, 0) == (int) size);
}

/* The size of a message, which is dropped. */
static size_t receive_message (void *socket)
{
    zmq_msg_t message;
    check (zmq_msg_init (&message) == 0);
    check (zmq_msg_recv (&message, socket, 0) >= 0);
    const size_t size = zmq_msg_size (&message);
    check (zmq_msg_close (&message) == 0);
    return size;
}

/* Sends back what comes, until an empty message has come. */
static void echo (struct side *side)
{
    void *socket = make_socket (side, ZMQ_REP, mark_for (side->job->size));
    zmq_msg_t message;
    size_t size = 1;
    long trips;
    struct usage used = {0, 0};
    bind_and_tell (side, socket);
    for (trips = 0; size > 0; trips++) {
        if (trips == WARM_UP)
            usage_begin (&used);
        check (zmq_msg_init (&message) == 0);
        check (zmq_msg_recv (&message, socket, 0) >= 0);
        size = zmq_msg_size (&message);
        check (zmq_msg_send (&message, socket, 0) >= 0);
    }
    used = usage_since (&used);
    tell (side, &used, sizeof used);
    /* What a socket has not sent when it is closed, libzmq may lose. */
    hear (side, &size, sizeof size);
    check (zmq_close (socket) == 0);
}

static void print_usage (const char *name, const struct usage *used)
{
    printf (", \"%s_user_s\": %.6f, \"%s_system_s\": %.6f", name, used->user, name, used->system);
}

static void print_latency (double *halves, long trips, const struct usage *mine, const struct usage *other)
{
    qsort (halves, (size_t) trips, sizeof *halves, compare_doubles);
    printf ("{\"trips\": %ld, \"median_us\": %.3f, \"p99_us\": %.3f", trips, halves[trips / 2],
            halves[trips - 1 - trips / 100]);
    /* A thousandth of fewer is no measurement. */
    if (trips >= 1000)
        printf (", \"p999_us\": %.3f", halves[trips - 1 - trips / 1000]);
    else
        printf (", \"p999_us\": null");
    print_usage ("client", mine);
    print_usage ("server", other);
    printf ("}\n");
}

static void ask (struct side *side)
{
    const struct job *job = side->job;
    void *socket = make_socket (side, ZMQ_REQ, mark_for (job->size));
    char endpoint[ENDPOINT_SIZE];
    double *halves = malloc (TRIPS * sizeof *halves);
    struct usage used = {0, 0}, other;
    double end = 0;
    long trips;
    check (halves);
    hear_endpoint (side, endpoint);
    check (zmq_connect (socket, endpoint) == 0);
    for (trips = -WARM_UP; trips < TRIPS; trips++) {
        const double begun = now ();
        if (trips == 0) {
            usage_begin (&used);
            end = begun + job->ms * 1e-3;
        }
        if (trips > 10 && begun > end)
            break;
        send_message (socket, job->size);
        check (receive_message (socket) == job->size);
        if (trips >= 0)
            halves[trips] = (now () - begun) * 1e6 / 2;
    }
    used = usage_since (&used);
    send_message (socket, 0);
    receive_message (socket);
    hear (side, &other, sizeof other);
    tell (side, &job->size, sizeof job->size);
    print_latency (halves, trips, &used, &other);
    free (halves);
    check (zmq_close (socket) == 0);
}

void measure_latency (const struct job *job)
{
    run_sides (job, echo, ask);
}

/* Receives until an empty message has come. */
static struct received drain (void *socket)
{
    struct received all = {0, 0, {0, 0}};
    struct usage begun;
    receive_message (socket);
    const double start = now ();
    usage_begin (&begun);
    while (receive_message (socket) > 0)
        all.messages++;
    all.seconds = now () - start;
    all.used = usage_since (&begun);
    return all;
}

/* Sends for as long as the job says, and then an empty message. */
static long flood (void *socket, const struct job *job)
{
    const double end = now () + job->ms * 1e-3;
    long sent = 0;
    do {
        for (int i = 0; i < (job->size < 65536 ? 16 : 1); i++, sent++)
            send_message (socket, job->size);
    } while (now () < end || sent < 10);
    send_message (socket, 0);
    return sent;
}

/* One of several pairs: a thread of its own on each side. */
struct stream {
    const struct job *job;
    void *socket;
    struct received all;
    pthread_t thread;
};

static void *drain_stream (void *arg)
{
    struct stream *stream = arg;
    stream->all = drain (stream->socket);
    return NULL;
}

static void *flood_stream (void *arg)
{
    struct stream *stream = arg;
    flood (stream->socket, stream->job);
    return NULL;
}

static void start (struct stream *streams, int count, void *(*body) (void *) )
{
    for (int i = 0; i < count; i++)
        check (pthread_create (&streams[i].thread, NULL, body, &streams[i]) == 0);
}

static void finish (struct stream *streams, int count)
{
    for (int i = 0; i < count; i++)
        check (pthread_join (streams[i].thread, NULL) == 0);
}

static void free_streams (struct stream *streams, int count)
{
    for (int i = 0; i < count; i++)
        check (zmq_close (streams[i].socket) == 0);
    free (streams);
}

static struct stream *make_streams (const struct side *side)
{
    struct stream *streams = calloc ((size_t) side->job->peers, sizeof *streams);
    check (streams);
    for (int i = 0; i < side->job->peers; i++)
        streams[i].job = side->job;
    return streams;
}

/* The pulling side: `peers` streams in as many threads. */
static void pull (struct side *side)
{
    const int count = side->job->peers;
    struct stream *streams = make_streams (side);
    struct received all = {0, 0, {0, 0}};
    double rate = 0;
    for (int i = 0; i < count; i++) {
        streams[i].socket = make_socket (side, ZMQ_PULL, mark_for (side->job->size));
        bind_and_tell (side, streams[i].socket);
    }
    usage_begin (&all.used);
    start (streams, count, drain_stream);
    finish (streams, count);
    all.used = usage_since (&all.used);
    for (int i = 0; i < count; i++) {
        rate += (double) streams[i].all.messages / streams[i].all.seconds;
        all.messages += streams[i].all.messages;
    }
    all.seconds = (double) all.messages / rate;
    tell (side, &all, sizeof all);
    free_streams (streams, count);
}

static void push (struct side *side)
{
    const int count = side->job->peers;
    struct stream *streams = make_streams (side);
    char endpoint[ENDPOINT_SIZE];
    struct usage used;
    struct received all;
    for (int i = 0; i < count; i++) {
        hear_endpoint (side, endpoint);
        streams[i].socket = make_socket (side, ZMQ_PUSH, mark_for (side->job->size));
        check (zmq_connect (streams[i].socket, endpoint) == 0);
    }
    usage_begin (&used);
    start (streams, count, flood_stream);
    finish (streams, count);
    hear (side, &all, sizeof all);
    used = usage_since (&used);
    const double rate = (double) all.messages / all.seconds;
    printf ("{\"messages\": %ld, \"messages_s\": %.3f, \"bytes_s\": %.1f", all.messages, rate,
            rate * (double) side->job->size);
    print_usage ("client", &used);
    print_usage ("server", &all.used);
    printf ("}\n");
    /* Only now: what a socket has not sent when it is closed, libzmq may lose. */
    free_streams (streams, count);
}

void measure_throughput (const struct job *job)
{
    run_sides (job, pull, push);
}
