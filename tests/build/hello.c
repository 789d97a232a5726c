/* SPDX-License-Identifier: MPL-2.0 */

/*  The least program: C99 and C++98 alike. It exchanges a message with itself
    over rdma://, so that whatever is linked is also run.  */

#include <zmq.h>
#include <zmq_rdma.h>

#include <stdio.h>
#include <string.h>

static int fail (const char *what)
{
    fprintf (stderr, "%s: %s\n", what, zmq_strerror (zmq_errno ()));
    return 1;
}

int main (void)
{
    char endpoint[256], text[8];
    size_t size = sizeof endpoint;
    const int patience_ms = 20000;
    int major, minor, patch;
    void *ctx, *a, *b;

    if (!zmq_has ("rdma"))
        return fail ("zmq_has");
    if (!zmq_rdma_ops () || zmq_rdma_ops ()->abi != ZMQ_RDMA_ABI)
        return fail ("zmq_rdma_ops");
    ctx = zmq_ctx_new ();
    a = zmq_socket (ctx, ZMQ_PAIR);
    b = zmq_socket (ctx, ZMQ_PAIR);
    zmq_setsockopt (b, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
    if (zmq_bind (a, "rdma://127.0.0.1:*") != 0)
        return fail ("zmq_bind");
    if (zmq_getsockopt (a, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0)
        return fail ("zmq_getsockopt");
    if (zmq_connect (b, endpoint) != 0)
        return fail ("zmq_connect");
    if (zmq_send (a, "hello", 5, 0) != 5)
        return fail ("zmq_send");
    if (zmq_recv (b, text, sizeof text, 0) != 5 || memcmp (text, "hello", 5) != 0)
        return fail ("zmq_recv");
    zmq_close (a);
    zmq_close (b);
    zmq_ctx_term (ctx);
    zmq_version (&major, &minor, &patch);
    printf ("hello over %s by libzmq %d.%d.%d\n", endpoint, major, minor,
            patch);
    return 0;
}
