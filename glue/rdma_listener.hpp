/* SPDX-License-Identifier: MPL-2.0 */

#ifndef __ZMQ_RDMA_LISTENER_HPP_INCLUDED__
#define __ZMQ_RDMA_LISTENER_HPP_INCLUDED__

#include "rdma_address.hpp"
#include "stream_listener_base.hpp"

namespace zmq
{
class rdma_listener_t ZMQ_FINAL : public stream_listener_base_t
{
  public:
    rdma_listener_t (zmq::io_thread_t *io_thread_,
                     zmq::socket_base_t *socket_,
                     const options_t &options_);
    ~rdma_listener_t () ZMQ_OVERRIDE;

    //  Set address to listen on.
    int set_local_address (const char *addr_);

  protected:
    std::string get_socket_name (fd_t fd_,
                                 socket_end_t socket_end_) const ZMQ_OVERRIDE;

  private:
    //  Connections taken in before other objects of the thread have their turn.
    enum
    {
        max_accepts = 16
    };

    //  ID of the timer of a pause, and how long one is, in milliseconds.
    enum
    {
        pause_timer_id = 1,
        pause_ivl = 100
    };

    //  Handlers for I/O events.
    void in_event () ZMQ_OVERRIDE;
    void timer_event (int id_) ZMQ_OVERRIDE;

    //  Listens on an address. Returns 0, or -1 and sets errno.
    int listen (const rdma_address_t &address_);

    //  Takes in one connection. Returns false if there is no point in trying
    //  for another one now.
    bool accept ();

    //  Whether the accept filters let this link in.
    bool admits (zmq_rdma_link_t *link_) const;

    //  Hands a link to an engine, and the engine to a session.
    void launch_engine (zmq_rdma_link_t *link_, fd_t fd_);

    //  Stops accepting for a while: for want of descriptors or memory, or
    //  because nothing else is left to do.
    void pause ();

    //  Close the listener.
    int close () ZMQ_OVERRIDE;

    const zmq_rdma_ops_t *const _ops;
    zmq_rdma_listener_t *_listener;

    //  Accepts that failed in a row.
    int _failures;

    //  True iff the timer of a pause has been started.
    bool _paused;

    ZMQ_NON_COPYABLE_NOR_MOVABLE (rdma_listener_t)
};
}

#endif
