/* SPDX-License-Identifier: MPL-2.0 */
/* hello-czmq.c [ENDPOINT]: czmq over rdma://. */

#include <czmq.h>

int main (int argc, char **argv)
{
    zsock_t *server = zsock_new (ZMQ_REP);
    if (zsock_bind (server, "%s", argc > 1 ? argv[1] : "rdma://127.0.0.1:*") == -1) {
        fprintf (stderr, "%s\n", zmq_strerror (zmq_errno ()));
        return 1;
    }
    char *endpoint = zsock_last_endpoint (server);
    zsock_t *client = zsock_new_req (endpoint);
    if (!client)
        return 1;

    zstr_send (client, "hello");
    char *question = zstr_recv (server);
    zstr_send (server, question);
    zframe_t *answer = zframe_recv (client);
    char *text = zframe_strdup (answer);
    const char *device = zframe_meta (answer, "Rdma-Device");
    printf ("%s over %s by %s\n", text, endpoint, device ? device : "no RDMA device");

    zstr_free (&text);
    zframe_destroy (&answer);
    zstr_free (&question);
    zsock_destroy (&client);
    zstr_free (&endpoint);
    zsock_destroy (&server);
    return 0;
}
