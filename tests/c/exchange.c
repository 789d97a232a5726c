/* SPDX-License-Identifier: MPL-2.0 */
/*  A C program as a user would write it: a server and a client in two
    processes exchange checked messages of many sizes. It sees zmq.h, and
    zmq_rdma.h to ask for the transport's own version; it is compiled as C99,
    linked with pkg-config, shared and static. Usage: exchange SCHEME */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zmq.h>
#ifdef WITH_ZMQ_RDMA_H
#include <zmq_rdma.h>
#endif

#define ROUNDS 300

static void fail (const char *what_)
{
    fprintf (stderr, "%s: %s\n", what_, zmq_strerror (zmq_errno ()));
    exit (1);
}

static void check (int condition_, const char *what_)
{
    if (!condition_)
        fail (what_);
}

/*  A message is a pure function of its number. */
static size_t size_of (unsigned number_)
{
    return number_ * (size_t) number_ * 7 % 300000;
}

static unsigned char byte_of (unsigned number_, size_t at_)
{
    return (unsigned char) (number_ * 31 + at_ * 7 + at_ / 251);
}

static void fill (zmq_msg_t *msg_, unsigned number_)
{
    unsigned char *data;
    size_t i;
    const size_t size = size_of (number_);
    check (zmq_msg_init_size (msg_, size) == 0, "zmq_msg_init_size");
    data = (unsigned char *) zmq_msg_data (msg_);
    for (i = 0; i < size; i++)
        data[i] = byte_of (number_, i);
}

static void compare (zmq_msg_t *msg_, unsigned number_)
{
    size_t i;
    const size_t size = zmq_msg_size (msg_);
    const unsigned char *data = (const unsigned char *) zmq_msg_data (msg_);
    if (size != size_of (number_)) {
        fprintf (stderr, "message %u has %lu bytes\n", number_, (unsigned long) size);
        exit (1);
    }
    for (i = 0; i < size; i++)
        if (data[i] != byte_of (number_, i)) {
            fprintf (stderr, "message %u differs at byte %lu\n", number_, (unsigned long) i);
            exit (1);
        }
}

static void serve (void *ctx_, int endpoint_fd_, const char *scheme_)
{
    char endpoint[256];
    size_t length = sizeof endpoint;
    unsigned number;
    void *const rep = zmq_socket (ctx_, ZMQ_REP);
    check (rep != NULL, "zmq_socket");
    snprintf (endpoint, sizeof endpoint, "%s://127.0.0.1:*", scheme_);
    check (zmq_bind (rep, endpoint) == 0, "zmq_bind");
    check (zmq_getsockopt (rep, ZMQ_LAST_ENDPOINT, endpoint, &length) == 0, "ZMQ_LAST_ENDPOINT");
    check (write (endpoint_fd_, endpoint, length) == (ssize_t) length, "write");
    for (number = 0; number < ROUNDS; number++) {
        zmq_msg_t msg;
        const char *device;
        zmq_msg_init (&msg);
        check (zmq_msg_recv (&msg, rep, 0) >= 0, "zmq_msg_recv");
        compare (&msg, number);
        device = zmq_msg_gets (&msg, "Rdma-Device");
        if (number == 0)
            printf ("device: %s\n", device ? device : "none");
        check (zmq_msg_send (&msg, rep, 0) >= 0, "zmq_msg_send");
    }
    check (zmq_close (rep) == 0, "zmq_close");
}

static void request (void *ctx_, const char *endpoint_)
{
    unsigned number;
    void *const req = zmq_socket (ctx_, ZMQ_REQ);
    check (req != NULL, "zmq_socket");
    check (zmq_connect (req, endpoint_) == 0, "zmq_connect");
    for (number = 0; number < ROUNDS; number++) {
        zmq_msg_t msg;
        fill (&msg, number);
        check (zmq_msg_send (&msg, req, 0) >= 0, "zmq_msg_send");
        zmq_msg_init (&msg);
        check (zmq_msg_recv (&msg, req, 0) >= 0, "zmq_msg_recv");
        compare (&msg, number);
        zmq_msg_close (&msg);
    }
    check (zmq_close (req) == 0, "zmq_close");
}

static void check_transport (const char *scheme_)
{
    if (strcmp (scheme_, "rdma") != 0)
        return;
    check (zmq_has ("rdma") == 1, "zmq_has (\"rdma\")");
#ifdef WITH_ZMQ_RDMA_H
    {
        const zmq_rdma_ops_t *const ops = zmq_rdma_ops ();
        check (ops != NULL && ops->abi == ZMQ_RDMA_ABI && ops->size >= sizeof *ops, "zmq_rdma_ops");
    }
#endif
}

int main (int argc_, char **argv_)
{
    const char *const scheme = argc_ > 1 ? argv_[1] : "rdma";
    int ends[2], status;
    pid_t child;

    check_transport (scheme);
    check (pipe (ends) == 0, "pipe");
    child = fork ();
    check (child >= 0, "fork");
    if (child == 0) {
        void *const ctx = zmq_ctx_new ();
        serve (ctx, ends[1], scheme);
        check (zmq_ctx_term (ctx) == 0, "zmq_ctx_term");
        return 0;
    } else {
        char endpoint[256] = "";
        void *const ctx = zmq_ctx_new ();
        check (read (ends[0], endpoint, sizeof endpoint - 1) > 0, "read");
        request (ctx, endpoint);
        check (zmq_ctx_term (ctx) == 0, "zmq_ctx_term");
        check (waitpid (child, &status, 0) == child && status == 0, "the server");
        printf ("%d messages there and back over %s\n", ROUNDS, endpoint);
        return 0;
    }
}
