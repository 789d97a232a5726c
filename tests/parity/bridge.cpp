/* SPDX-License-Identifier: MPL-2.0 */

#include "bridge.hpp"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../include/zmq_rdma.h"

namespace
{
//  How long a close in good order is waited for, in milliseconds.
const int patience = 2000;

const zmq_rdma_ops_t &ops ()
{
    return *zmq_rdma_ops ();
}

void options (zmq_rdma_options_t *out_)
{
    memset (out_, 0, sizeof (*out_));
    out_->size = sizeof (*out_);
    ops ().options_init (out_);
    out_->backlog = 100;
    out_->ipv6 = 1;
}

short events_of (const zmq_rdma_ready_t &ready_)
{
    return (ready_.want_in ? POLLIN : 0) | (ready_.want_out ? POLLOUT : 0);
}

//  Two ends of one connection: a link, and a local stream socket.
class pump_t
{
  public:
    pump_t (zmq_rdma_link_t *link_, int fd_) :
        _link (link_), _fd (fd_), _held (0), _at_end (false)
    {
    }

    ~pump_t ()
    {
        close (_fd);
        finish ();
        ops ().close (_link);
    }

    void run ()
    {
        while (turn ())
            wait (-1);
    }

    static void *thread (void *pump_)
    {
        pump_t *const pump = static_cast<pump_t *> (pump_);
        pump->run ();
        delete pump;
        return NULL;
    }

    static void start (zmq_rdma_link_t *link_, int fd_)
    {
        pthread_t id;
        pthread_create (&id, NULL, thread, new pump_t (link_, fd_));
        pthread_detach (id);
    }

  private:
    //  Moves what there is. Returns false at the end of either side.
    bool turn ()
    {
        if (ops ().crank (_link) < 0 || !to_socket ())
            return false;
        if (_held == 0 && !_at_end)
            from_socket ();
        const bool sent = to_link ();
        return !(_at_end && sent);
    }

    bool to_socket ()
    {
        char data[8192];
        int rc;
        while ((rc = ops ().read (_link, data, sizeof (data))) > 0)
            for (int sent = 0; sent < rc;) {
                const ssize_t n =
                  send (_fd, data + sent, rc - sent, MSG_NOSIGNAL);
                if (n < 0)
                    return false;
                sent += n;
            }
        return rc == -EAGAIN;
    }

    void from_socket ()
    {
        const ssize_t n = recv (_fd, _data, sizeof (_data), MSG_DONTWAIT);
        if (n > 0)
            _held = n;
        else if (n == 0 || errno != EAGAIN)
            _at_end = true;
    }

    //  Returns whether all is sent.
    bool to_link ()
    {
        size_t sent = 0;
        void *room;
        size_t size;
        while (sent < _held && ops ().reserve (_link, &room, &size) >= 0) {
            const size_t n = size < _held - sent ? size : _held - sent;
            memcpy (room, _data + sent, n);
            ops ().commit (_link, n);
            sent += n;
        }
        ops ().flush (_link);
        memmove (_data, _data + sent, _held - sent);
        _held -= sent;
        return _held == 0;
    }

    void wait (int timeout_)
    {
        zmq_rdma_ready_t ready;
        ops ().link_ready (_link, &ready);
        pollfd items[2];
        items[0].fd = ready.fd;
        items[0].events = events_of (ready);
        items[1].fd = _held || _at_end ? -1 : _fd;
        items[1].events = POLLIN;
        poll (items, 2, timeout_);
    }

    void finish ()
    {
        _at_end = true;
        int state = ops ().shut (_link);
        for (int left = patience;
             left > 0 && state >= 0
             && !(state & (ZMQ_RDMA_FINISHED | ZMQ_RDMA_DEAD));
             left -= 100) {
            wait (100);
            state = ops ().crank (_link);
        }
    }

    zmq_rdma_link_t *const _link;
    const int _fd;
    char _data[8192];
    size_t _held;
    bool _at_end;
};

//  Takes an endpoint apart into host and port.
void split (const char *endpoint_, std::string *host_, std::string *port_)
{
    const std::string address = strstr (endpoint_, "://") + 3;
    const std::string::size_type colon = address.rfind (':');
    *host_ = address.substr (0, colon);
    *port_ = address.substr (colon + 1);
    if ((*host_)[0] == '[')
        *host_ = host_->substr (1, host_->size () - 2);
}

zmq_rdma_link_t *dial (const char *endpoint_)
{
    std::string host, port;
    split (endpoint_, &host, &port);
    zmq_rdma_options_t opts;
    options (&opts);
    zmq_rdma_dial_t *dial = NULL;
    if (ops ().dial (&opts, host.c_str (), atoi (port.c_str ()), NULL, &dial)
        < 0)
        return NULL;

    zmq_rdma_link_t *link = NULL;
    int rc;
    while ((rc = ops ().dial_step (dial, &link)) == -EINPROGRESS) {
        zmq_rdma_ready_t ready;
        ops ().dial_ready (dial, &ready);
        pollfd item = {ready.fd, events_of (ready), 0};
        poll (&item, 1, -1);
    }
    ops ().dial_close (dial);
    return rc < 0 ? NULL : link;
}

//  What stands behind a descriptor that a test accepts from.
struct gate_t
{
    zmq_rdma_listener_t *listener;
    sockaddr_un address;
    socklen_t address_len;

    void serve (zmq_rdma_link_t *link_)
    {
        const int fd = socket (AF_UNIX, SOCK_STREAM, 0);
        if (connect (fd, reinterpret_cast<sockaddr *> (&address), address_len)
            == 0) {
            pump_t::start (link_, fd);
            return;
        }
        close (fd);
        ops ().close (link_);
    }

    static void *thread (void *gate_)
    {
        gate_t *const gate = static_cast<gate_t *> (gate_);
        while (true) {
            zmq_rdma_ready_t ready;
            ops ().listener_ready (gate->listener, &ready);
            pollfd item = {ready.fd, events_of (ready), 0};
            poll (&item, 1, -1);
            zmq_rdma_link_t *link = NULL;
            while (ops ().accept (gate->listener, &link) >= 0)
                gate->serve (link);
        }
    }
};
}

int parity_dial (const char *endpoint_)
{
    zmq_rdma_link_t *const link = dial (endpoint_);
    int ends[2];
    if (!link || socketpair (AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return -1;
    pump_t::start (link, ends[1]);
    return ends[0];
}

int parity_listen (const char *host_, const char *port_, char *my_endpoint_)
{
    addrinfo hint, *in;
    memset (&hint, 0, sizeof (hint));
    hint.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
    hint.ai_socktype = SOCK_STREAM;
    if (getaddrinfo (host_, port_, &hint, &in) != 0)
        return -1;
    zmq_rdma_addr_t addr;
    memset (&addr, 0, sizeof (addr));
    memcpy (addr.bytes, in->ai_addr, in->ai_addrlen);
    addr.len = in->ai_addrlen;
    freeaddrinfo (in);

    zmq_rdma_options_t opts;
    options (&opts);
    gate_t *const gate = new gate_t;
    if (ops ().listen (&opts, &addr, &gate->listener) < 0)
        return -1;
    ops ().listener_addr (gate->listener, &addr);
    //  The port is at the same place in both families.
    sockaddr_in bound;
    memcpy (&bound, addr.bytes, sizeof (bound));
    sprintf (my_endpoint_, "rdma://%s:%u", host_, ntohs (bound.sin_port));

    const int fd = socket (AF_UNIX, SOCK_STREAM, 0);
    memset (&gate->address, 0, sizeof (gate->address));
    gate->address.sun_family = AF_UNIX;
    //  Only the family: the kernel chooses a name.
    bind (fd, reinterpret_cast<sockaddr *> (&gate->address),
          sizeof (gate->address.sun_family));
    listen (fd, 100);
    gate->address_len = sizeof (gate->address);
    getsockname (fd, reinterpret_cast<sockaddr *> (&gate->address),
                 &gate->address_len);

    pthread_t id;
    pthread_create (&id, NULL, gate_t::thread, gate);
    pthread_detach (id);
    return fd;
}
