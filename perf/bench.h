/* SPDX-License-Identifier: MPL-2.0 */
/* What the measuring program's parts share. It knows zmq.h alone, so it runs with any libzmq. */

#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <stdint.h>

/* What is to be measured. */
struct job {
    const char *scheme; /* rdma, tcp, ipc, inproc */
    const char *host;   /* address to bind to, for rdma and tcp */
    size_t size;        /* bytes of a message */
    int ms;             /* milliseconds that it takes, about */
    int peers;          /* subscribers, streams or connections */
    int io_threads;     /* of each side */
};

/* One of the two sides: a process each, except over inproc. */
struct side {
    const struct job *job;
    void *context;
    int channel; /* to the other side, beside what is measured */
};

/* A side's processor time since `usage_begin`. Over inproc both sides are one process, and the client's
   is that of both. */
struct usage {
    double user, system; /* seconds */
};

typedef void role_t (struct side *side);

/* Runs `server` in another process (inproc: another thread) and `client` here. */
void run_sides (const struct job *job, role_t *server, role_t *client);

/* A word of `size` bytes over the channel. */
void tell (struct side *side, const void *word, size_t size);
void hear (struct side *side, void *word, size_t size);

/* A socket of this side; `hwm` messages may wait in it. */
void *make_socket (struct side *side, int type, int hwm);
/* Binds as the job says, and tells the other side where; or connects to where it was told. */
void bind_and_tell (struct side *side, void *socket);
void hear_endpoint (struct side *side, char *endpoint);
/* A high-water mark that keeps what waits below 64 MiB. */
int mark_for (size_t size);

double now (void);
void usage_begin (struct usage *begun);
struct usage usage_since (const struct usage *begun);
/* Proportional resident memory of this process, KiB. */
long resident (void);
/* Open descriptors of this process, and some. */
long descriptors (void);
int compare_doubles (const void *a, const void *b);
int compare_longs (const void *a, const void *b);

/* Ends the program if `is_well` is false. */
void check_at (int is_well, const char *what, const char *file, int line);
#define check(x) check_at (!!(x), #x, __FILE__, __LINE__)

#define ENDPOINT_SIZE 256

/* The measurements. Each prints one line, a JSON object. */
void measure_latency (const struct job *job);
void measure_throughput (const struct job *job);
void measure_fanout (const struct job *job);
void measure_crowd (const struct job *job);

#endif
