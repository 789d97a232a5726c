/* SPDX-License-Identifier: MPL-2.0 */

#ifndef __ZMQ_RDMA_CONNECTER_HPP_INCLUDED__
#define __ZMQ_RDMA_CONNECTER_HPP_INCLUDED__

#include "rdma_address.hpp"
#include "stream_connecter_base.hpp"

namespace zmq
{
//  Makes connections. The base class's descriptor stays retired: the library
//  owns the one that is polled, and may change it with each step of a dial.
class rdma_connecter_t ZMQ_FINAL : public stream_connecter_base_t
{
  public:
    //  If 'delayed_start' is true connecter first waits for a while,
    //  then starts connection process.
    rdma_connecter_t (zmq::io_thread_t *io_thread_,
                      zmq::session_base_t *session_,
                      const options_t &options_,
                      address_t *addr_,
                      bool delayed_start_);
    ~rdma_connecter_t () ZMQ_OVERRIDE;

  private:
    //  ID of the timer that bounds a dial, must be different from
    //  stream_connecter_base_t::reconnect_timer_id.
    enum
    {
        connect_timer_id = 2
    };

    //  Handlers for incoming commands.
    void process_term (int linger_) ZMQ_OVERRIDE;

    //  Handlers for I/O events.
    void out_event () ZMQ_OVERRIDE;
    void timer_event (int id_) ZMQ_OVERRIDE;

    //  Starts a dial.
    void start_connecting () ZMQ_OVERRIDE;

    //  Opens the dial. Returns 0, or -1 and sets errno.
    int dial ();

    //  Goes on with the dial.
    void step ();

    //  Polls for what the dial waits for. Returns false if there is nothing
    //  to wait for: it is over.
    bool watch ();

    //  Hands the link to an engine, and the engine to the session.
    void launch_engine (zmq_rdma_link_t *link_, fd_t fd_);

    //  The dial failed: gives up or tries again later, as the options say.
    void fail (int err_);

    void add_connect_timer ();
    void cancel_connect_timer ();

    //  Frees the dial.
    void close_dial ();

    const zmq_rdma_ops_t *const _ops;
    zmq_rdma_dial_t *_dial;

    //  True once the monitor has been told that the dial is under way.
    bool _delayed;

    //  True iff a timer has been started.
    bool _connect_timer_started;

    ZMQ_NON_COPYABLE_NOR_MOVABLE (rdma_connecter_t)
};
}

#endif
