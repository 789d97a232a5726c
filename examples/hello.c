/* SPDX-License-Identifier: MPL-2.0 */
/* hello.c [ENDPOINT]: asks and answers over rdma://. Nothing but the endpoint differs from tcp://. */

#include <stdio.h>
#include <stdlib.h>
#include <zmq.h>

static void check (int ok)
{
    if (!ok) {
        fprintf (stderr, "%s\n", zmq_strerror (zmq_errno ()));
        exit (1);
    }
}

int main (int argc, char **argv)
{
    void *context = zmq_ctx_new ();
    void *server = zmq_socket (context, ZMQ_REP);
    void *client = zmq_socket (context, ZMQ_REQ);
    char endpoint[256], question[16], answer[16];
    size_t size = sizeof endpoint;

    check (zmq_bind (server, argc > 1 ? argv[1] : "rdma://127.0.0.1:*") == 0);
    check (zmq_getsockopt (server, ZMQ_LAST_ENDPOINT, endpoint, &size) == 0);
    check (zmq_connect (client, endpoint) == 0);

    check (zmq_send (client, "hello", 5, 0) == 5);
    check (zmq_recv (server, question, sizeof question, 0) == 5);
    check (zmq_send (server, question, 5, 0) == 5);

    zmq_msg_t message;
    zmq_msg_init (&message);
    check (zmq_msg_recv (&message, client, 0) == 5);
    snprintf (answer, sizeof answer, "%.5s", (char *) zmq_msg_data (&message));
    /* Which device carried it: "soft", or "verbs:" and its name. NULL over other transports. */
    const char *device = zmq_msg_gets (&message, "Rdma-Device");
    printf ("%s over %s by %s\n", answer, endpoint, device ? device : "no RDMA device");
    zmq_msg_close (&message);

    zmq_close (client);
    zmq_close (server);
    zmq_ctx_term (context);
    return 0;
}
