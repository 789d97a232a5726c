/* SPDX-License-Identifier: MPL-2.0 */

#include "precompiled.hpp"
#include <new>
#include <string>

#include "rdma_listener.hpp"
#include "rdma_engine.hpp"
#include "err.hpp"
#include "io_thread.hpp"
#include "session_base.hpp"
#include "socket_base.hpp"

zmq::rdma_listener_t::rdma_listener_t (io_thread_t *io_thread_,
                                       socket_base_t *socket_,
                                       const options_t &options_) :
    stream_listener_base_t (io_thread_, socket_, options_),
    _ops (rdma_ops ()),
    _listener (NULL),
    _failures (0),
    _paused (false)
{
}

zmq::rdma_listener_t::~rdma_listener_t ()
{
    zmq_assert (!_listener);
    zmq_assert (!_paused);
}

int zmq::rdma_listener_t::set_local_address (const char *addr_)
{
    if (!rdma_may_bind (options))
        return -1;

    rdma_address_t address;
    if (address.resolve (addr_, options.ipv6) != 0)
        return -1;

    int rc = listen (address);

    //  IPv6 address family not supported, try automatic downgrade to IPv4.
    if (rc != 0 && errno == EAFNOSUPPORT && options.ipv6) {
        if (address.resolve (addr_, false) != 0)
            return -1;
        rc = listen (address);
    }
    if (rc != 0)
        return -1;

    _endpoint = get_socket_name (_s, socket_end_local);
    _socket->event_listening (make_unconnected_bind_endpoint_pair (_endpoint),
                              _s);
    return 0;
}

int zmq::rdma_listener_t::listen (const rdma_address_t &address_)
{
    zmq_rdma_options_t rdma_opts;
    if (rdma_options (options, &rdma_opts) != 0)
        return -1;

    zmq_rdma_ready_t ready;
    int rc = _ops->listen (&rdma_opts, &address_.raw, &_listener);
    if (rc >= 0) {
        rc = _ops->listener_ready (_listener, &ready);
        if (rc < 0) {
            _ops->unlisten (_listener);
        }
    }
    if (rc < 0) {
        _listener = NULL;
        errno = -rc;
        return -1;
    }
    _s = ready.fd;
    return 0;
}

std::string
zmq::rdma_listener_t::get_socket_name (fd_t, socket_end_t socket_end_) const
{
    rdma_address_t address;
    if (_listener && socket_end_ == socket_end_local)
        _ops->listener_addr (_listener, &address.raw);
    return address.to_string ();
}

void zmq::rdma_listener_t::in_event ()
{
    for (int i = 0; i < max_accepts; ++i)
        if (!accept ())
            return;
}

bool zmq::rdma_listener_t::accept ()
{
    zmq_rdma_link_t *link = NULL;
    const int rc = _ops->accept (_listener, &link);
    if (rc == -EAGAIN)
        return false;

    int err = -rc;
    if (rc >= 0) {
        _failures = 0;
        const fd_t fd = rdma_link_fd (link);
        if (fd != retired_fd && admits (link)) {
            launch_engine (link, fd);
            return true;
        }
        _ops->close (link);
        err = fd == retired_fd ? ECONNABORTED : EACCES;
    }
    _socket->event_accept_failed (
      make_unconnected_bind_endpoint_pair (_endpoint), err);
    if (rc >= 0)
        return true;

    //  These do not pass by trying again at once; nor does a defect.
    if (err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM
        || ++_failures == max_accepts) {
        pause ();
        return false;
    }
    return true;
}

bool zmq::rdma_listener_t::admits (zmq_rdma_link_t *link_) const
{
    const options_t::tcp_accept_filters_t &filters = options.tcp_accept_filters;
    if (filters.empty ())
        return true;

    rdma_address_t peer;
    if (_ops->link_addr (link_, ZMQ_RDMA_PEER, &peer.raw) < 0)
        return false;
    sockaddr_storage ss;
    const zmq_socklen_t len = peer.get (&ss);
    for (options_t::tcp_accept_filters_t::size_type i = 0; i != filters.size ();
         ++i)
        if (len > 0
            && filters[i].match_address (reinterpret_cast<sockaddr *> (&ss),
                                         len))
            return true;
    return false;
}

void zmq::rdma_listener_t::launch_engine (zmq_rdma_link_t *link_, fd_t fd_)
{
    rdma_address_t local, remote;
    _ops->link_addr (link_, ZMQ_RDMA_LOCAL, &local.raw);
    _ops->link_addr (link_, ZMQ_RDMA_PEER, &remote.raw);
    const endpoint_uri_pair_t endpoint_pair (
      local.to_string (), remote.to_string (), endpoint_type_bind);

    i_engine *const engine = rdma_engine (link_, fd_, options, endpoint_pair);

    //  We run in an I/O thread, so there is at least one to choose.
    io_thread_t *const io_thread = choose_io_thread (options.affinity);
    zmq_assert (io_thread);

    session_base_t *const session =
      session_base_t::create (io_thread, false, _socket, options, NULL);
    errno_assert (session);
    session->inc_seqnum ();
    launch_child (session);
    send_attach (session, engine, false);

    _socket->event_accepted (endpoint_pair, fd_);
}

void zmq::rdma_listener_t::pause ()
{
    zmq_assert (!_paused);
    reset_pollin (_handle);
    add_timer (pause_ivl, pause_timer_id);
    _failures = 0;
    _paused = true;
}

void zmq::rdma_listener_t::timer_event (int id_)
{
    zmq_assert (id_ == pause_timer_id);
    _paused = false;
    set_pollin (_handle);
}

int zmq::rdma_listener_t::close ()
{
    zmq_assert (_s != retired_fd);

    if (_paused) {
        cancel_timer (pause_timer_id);
        _paused = false;
    }
    _ops->unlisten (_listener);
    _listener = NULL;
    _socket->event_closed (make_unconnected_bind_endpoint_pair (_endpoint), _s);
    _s = retired_fd;
    return 0;
}
