/* SPDX-License-Identifier: MPL-2.0 */
/* The two sides of a measurement, and what they know of themselves. */

#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

void check_at (int is_well, const char *what, const char *file, int line)
{
    if (is_well)
        return;
    fprintf (stderr, "%s:%d: %s: %s\n", file, line, what, zmq_strerror (errno));
    /* Not exit: the other thread, over inproc, may be using what that tears down. */
    _exit (1);
}

double now (void)
{
    struct timespec t;
    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static double seconds (struct timeval t)
{
    return (double) t.tv_sec + (double) t.tv_usec * 1e-6;
}

void usage_begin (struct usage *begun)
{
    struct rusage used;
    check (getrusage (RUSAGE_SELF, &used) == 0);
    begun->user = seconds (used.ru_utime);
    begun->system = seconds (used.ru_stime);
}

struct usage usage_since (const struct usage *begun)
{
    struct usage used;
    usage_begin (&used);
    used.user -= begun->user;
    used.system -= begun->system;
    return used;
}

long resident (void)
{
    char line[256];
    long kib = -1;
    FILE *rollup = fopen ("/proc/self/smaps_rollup", "r");
    check (rollup);
    while (fgets (line, sizeof line, rollup))
        if (sscanf (line, "Pss: %ld kB", &kib) == 1)
            break;
    fclose (rollup);
    check (kib >= 0);
    return kib;
}

long descriptors (void)
{
    long count = 0;
    DIR *directory = opendir ("/proc/self/fd");
    check (directory);
    while (readdir (directory))
        count++;
    closedir (directory);
    return count;
}

int compare_doubles (const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

int compare_longs (const void *a, const void *b)
{
    const long x = *(const long *) a, y = *(const long *) b;
    return (x > y) - (x < y);
}

void tell (struct side *side, const void *word, size_t size)
{
    check (send (side->channel, word, size, MSG_NOSIGNAL) == (ssize_t) size);
}

void hear (struct side *side, void *word, size_t size)
{
    const ssize_t n = recv (side->channel, word, size, 0);
    if (n == 0)
        _exit (1); /* The other side has failed, and said why. */
    check (n == (ssize_t) size);
}

int mark_for (size_t size)
{
    const size_t most = ((size_t) 64 << 20) / (size ? size : 1);
    return most > 1000 ? 1000 : most < 2 ? 2 : (int) most;
}

void *make_socket (struct side *side, int type, int hwm)
{
    const int backlog = 4096;
    void *socket = zmq_socket (side->context, type);
    check (socket);
    check (zmq_setsockopt (socket, ZMQ_SNDHWM, &hwm, sizeof hwm) == 0);
    check (zmq_setsockopt (socket, ZMQ_RCVHWM, &hwm, sizeof hwm) == 0);
    check (zmq_setsockopt (socket, ZMQ_BACKLOG, &backlog, sizeof backlog) == 0);
    return socket;
}

void bind_and_tell (struct side *side, void *socket)
{
    static int serial;
    char endpoint[ENDPOINT_SIZE] = "";
    const char *scheme = side->job->scheme;
    size_t size = sizeof endpoint;
    if (strcmp (scheme, "inproc") == 0)
        snprintf (endpoint, size, "inproc://bench-%d", serial++);
    else if (strcmp (scheme, "ipc") == 0)
        snprintf (endpoint, size, "ipc://*");
    else
        snprintf (endpoint, size, "%s://%s:*", scheme, side->job->host);
    check (zmq_bind (socket, endpoint) == 0);
    check (zmq_getsockopt (socket, ZMQ_LAST_ENDPOINT, endpoint, &size) == 0);
    tell (side, endpoint, sizeof endpoint);
}

void hear_endpoint (struct side *side, char *endpoint)
{
    hear (side, endpoint, ENDPOINT_SIZE);
}

static void *make_context (const struct job *job)
{
    void *context = zmq_ctx_new ();
    check (context);
    check (zmq_ctx_set (context, ZMQ_IO_THREADS, job->io_threads) == 0);
    check (zmq_ctx_set (context, ZMQ_MAX_SOCKETS, job->peers + 64) == 0);
    return context;
}

/* A side in a thread of its own. */
struct threaded {
    struct side side;
    role_t *role;
};

static void *run_thread (void *arg)
{
    struct threaded *threaded = arg;
    threaded->role (&threaded->side);
    return NULL;
}

static void run_threads (struct side *here, int there, role_t *server, role_t *client)
{
    struct threaded other = {{here->job, make_context (here->job), there}, server};
    pthread_t thread;
    here->context = other.side.context;
    check (pthread_create (&thread, NULL, run_thread, &other) == 0);
    client (here);
    check (pthread_join (thread, NULL) == 0);
    check (zmq_ctx_term (here->context) == 0);
}

static void run_child (const struct job *job, int channel, pid_t parent, role_t *server)
{
    struct side side = {job, NULL, channel};
    check (prctl (PR_SET_PDEATHSIG, SIGKILL) == 0);
    if (getppid () != parent)
        _exit (1);
    side.context = make_context (job);
    server (&side);
    check (zmq_ctx_term (side.context) == 0);
    _exit (0);
}

void run_sides (const struct job *job, role_t *server, role_t *client)
{
    int ends[2], status;
    struct side here = {job, NULL, -1};
    check (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    here.channel = ends[0];
    if (strcmp (job->scheme, "inproc") == 0) {
        run_threads (&here, ends[1], server, client);
        return;
    }
    const pid_t parent = getpid ();
    fflush (stdout);
    const pid_t child = fork ();
    check (child >= 0);
    if (child == 0) {
        close (ends[0]);
        run_child (job, ends[1], parent, server);
    }
    close (ends[1]);
    here.context = make_context (job);
    client (&here);
    check (zmq_ctx_term (here.context) == 0);
    check (waitpid (child, &status, 0) == child);
    check (WIFEXITED (status) && WEXITSTATUS (status) == 0);
}
