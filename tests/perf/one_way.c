/* SPDX-License-Identifier: MPL-2.0 */
/* one_way send|receive ENDPOINT SIZE COUNT: one side of COUNT messages. Each side does its part in two steps, so
   that the work is the same each time: the sender queues all before the first can leave (its peer is stopped the
   while), and the receiver's application takes them when all are there (it waits for a line). */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

static void check (int is_well, const char *what)
{
    if (is_well)
        return;
    fprintf (stderr, "%s: %s\n", what, zmq_strerror (zmq_errno ()));
    exit (1);
}

static void *open_socket (void *context, int type)
{
    const int unlimited = 0;
    void *socket = zmq_socket (context, type);
    check (socket != NULL, "socket");
    check (zmq_setsockopt (socket, ZMQ_SNDHWM, &unlimited, sizeof unlimited) == 0, "SNDHWM");
    check (zmq_setsockopt (socket, ZMQ_RCVHWM, &unlimited, sizeof unlimited) == 0, "RCVHWM");
    return socket;
}

static void say (const char *word)
{
    printf ("%s\n", word);
    fflush (stdout);
}

static void send_all (void *context, const char *endpoint, size_t size, long count)
{
    void *socket = open_socket (context, ZMQ_PUSH);
    check (zmq_connect (socket, endpoint) == 0, "connect");
    while (count-- > 0) {
        zmq_msg_t message;
        check (zmq_msg_init_size (&message, size) == 0, "init_size");
        check (zmq_msg_send (&message, socket, 0) == (int) size, "send");
    }
    say ("queued");
    check (zmq_close (socket) == 0, "close");
}

static void receive_all (void *context, const char *endpoint, size_t size, long count)
{
    char last[256], line[16];
    size_t length = sizeof last;
    void *socket = open_socket (context, ZMQ_PULL);
    check (zmq_bind (socket, endpoint) == 0, "bind");
    check (zmq_getsockopt (socket, ZMQ_LAST_ENDPOINT, last, &length) == 0, "LAST_ENDPOINT");
    say (last);
    check (fgets (line, sizeof line, stdin) != NULL, "a line");
    while (count-- > 0) {
        zmq_msg_t message;
        check (zmq_msg_init (&message) == 0, "init");
        check (zmq_msg_recv (&message, socket, 0) == (int) size, "receive");
        check (zmq_msg_close (&message) == 0, "message");
    }
    check (zmq_close (socket) == 0, "close");
}

int main (int argc, char **argv)
{
    void *context = zmq_ctx_new ();
    check (argc == 5 && context != NULL, "usage: one_way send|receive ENDPOINT SIZE COUNT");
    const size_t size = strtoul (argv[3], NULL, 10);
    if (strcmp (argv[1], "send") == 0)
        send_all (context, argv[2], size, atol (argv[4]));
    else
        receive_all (context, argv[2], size, atol (argv[4]));
    check (zmq_ctx_term (context) == 0, "term");
    return 0;
}
