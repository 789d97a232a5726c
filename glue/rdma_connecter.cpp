/* SPDX-License-Identifier: MPL-2.0 */

#include "precompiled.hpp"
#include <new>
#include <string>

#include "rdma_connecter.hpp"
#include "rdma_engine.hpp"
#include "err.hpp"
#include "io_thread.hpp"
#include "session_base.hpp"
#include "socket_base.hpp"

zmq::rdma_connecter_t::rdma_connecter_t (class io_thread_t *io_thread_,
                                         class session_base_t *session_,
                                         const options_t &options_,
                                         address_t *addr_,
                                         bool delayed_start_) :
    stream_connecter_base_t (
      io_thread_, session_, options_, addr_, delayed_start_),
    _ops (rdma_ops ()),
    _dial (NULL),
    _delayed (false),
    _connect_timer_started (false)
{
    zmq_assert (_addr->protocol == protocol_name::rdma);
}

zmq::rdma_connecter_t::~rdma_connecter_t ()
{
    zmq_assert (!_connect_timer_started);
    zmq_assert (!_dial);
}

void zmq::rdma_connecter_t::process_term (int linger_)
{
    cancel_connect_timer ();
    close_dial ();
    stream_connecter_base_t::process_term (linger_);
}

void zmq::rdma_connecter_t::start_connecting ()
{
    if (dial () != 0) {
        add_reconnect_timer ();
        return;
    }

    _delayed = false;
    add_connect_timer ();
    if (!watch ())
        step ();
}

int zmq::rdma_connecter_t::dial ()
{
    zmq_assert (!_dial);

    rdma_target_t target;
    if (target.parse (_addr->address, options.ipv6) != 0)
        return -1;

    zmq_rdma_options_t rdma_opts;
    if (rdma_options (options, &rdma_opts) != 0)
        return -1;

    const int rc =
      _ops->dial (&rdma_opts, target.host.c_str (), target.port,
                  target.has_source ? &target.source.raw : NULL, &_dial);
    if (rc < 0) {
        _dial = NULL;
        errno = -rc;
        return -1;
    }
    return 0;
}

void zmq::rdma_connecter_t::out_event ()
{
    step ();
}

void zmq::rdma_connecter_t::step ()
{
    //  The step may close the descriptor.
    if (_handle)
        rm_handle ();

    zmq_rdma_link_t *link = NULL;
    int rc = _ops->dial_step (_dial, &link);
    if (rc == -EINPROGRESS) {
        if (watch ())
            return;
        //  It went from the name to its failure in one step.
        rc = _ops->dial_step (_dial, &link);
    }
    cancel_connect_timer ();
    if (rc < 0) {
        fail (-rc);
        return;
    }

    const fd_t fd = rdma_link_fd (link);
    if (fd == retired_fd) {
        _ops->close (link);
        fail (ECONNABORTED);
        return;
    }
    _ops->dial_close (_dial);
    _dial = NULL;
    launch_engine (link, fd);
}

bool zmq::rdma_connecter_t::watch ()
{
    zmq_rdma_ready_t ready;
    const int stage = _ops->dial_ready (_dial, &ready);
    if (stage < 0 || stage == ZMQ_RDMA_DIAL_OVER || ready.fd < 0)
        return false;

    if (stage == ZMQ_RDMA_DIAL_CONNECTING && !_delayed) {
        _delayed = true;
        _socket->event_connect_delayed (
          make_unconnected_connect_endpoint_pair (_endpoint), EINPROGRESS);
    }
    _handle = add_fd (ready.fd);
    if (ready.want_in)
        set_pollin (_handle);
    if (ready.want_out)
        set_pollout (_handle);
    return true;
}

void zmq::rdma_connecter_t::launch_engine (zmq_rdma_link_t *link_, fd_t fd_)
{
    rdma_address_t local;
    _ops->link_addr (link_, ZMQ_RDMA_LOCAL, &local.raw);
    const endpoint_uri_pair_t endpoint_pair (local.to_string (), _endpoint,
                                             endpoint_type_connect);

    send_attach (_session, rdma_engine (link_, fd_, options, endpoint_pair));

    //  Shut the connecter down.
    terminate ();

    _socket->event_connected (endpoint_pair, fd_);
}

void zmq::rdma_connecter_t::fail (int err_)
{
    close_dial ();

    int stop = 0;
    if (err_ == ECONNREFUSED)
        stop = ZMQ_RECONNECT_STOP_CONN_REFUSED;
    else if (err_ == EPROTO) {
        //  Whoever answered does not speak this protocol.
        stop = ZMQ_RECONNECT_STOP_HANDSHAKE_FAILED;
        _socket->event_handshake_failed_no_detail (
          make_unconnected_connect_endpoint_pair (_endpoint), err_);
    }
    if (options.reconnect_stop & stop) {
        send_conn_failed (_session);
        terminate ();
        return;
    }
    add_reconnect_timer ();
}

void zmq::rdma_connecter_t::timer_event (int id_)
{
    if (id_ == connect_timer_id) {
        _connect_timer_started = false;
        rdma_log (rdma_log_warning,
                  "no answer in time from " + _addr->address
                    + ": is it rdma:// that is listening there?");
        close_dial ();
        add_reconnect_timer ();
    } else
        stream_connecter_base_t::timer_event (id_);
}

void zmq::rdma_connecter_t::add_connect_timer ()
{
    //  A dial includes a handshake of its own, which the engine's timer does
    //  not see.
    const int timeout = options.connect_timeout > 0 ? options.connect_timeout
                                                    : options.handshake_ivl;
    if (timeout > 0) {
        add_timer (timeout, connect_timer_id);
        _connect_timer_started = true;
    }
}

void zmq::rdma_connecter_t::cancel_connect_timer ()
{
    if (_connect_timer_started) {
        cancel_timer (connect_timer_id);
        _connect_timer_started = false;
    }
}

void zmq::rdma_connecter_t::close_dial ()
{
    if (!_dial)
        return;
    if (_handle)
        rm_handle ();

    //  As over tcp, there is nothing to report closed before the name is known.
    zmq_rdma_ready_t ready;
    const int stage = _ops->dial_ready (_dial, &ready);
    _ops->dial_close (_dial);
    _dial = NULL;
    if (stage > ZMQ_RDMA_DIAL_RESOLVING && ready.fd >= 0)
        _socket->event_closed (
          make_unconnected_connect_endpoint_pair (_endpoint),
          static_cast<fd_t> (ready.fd));
}
