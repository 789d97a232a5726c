/* SPDX-License-Identifier: MPL-2.0 */

#include "precompiled.hpp"

#include "atomic_ptr.hpp"
#include "likely.hpp"
#include "rdma_address.hpp"
#include "rdma_body.hpp"

//  Programs that do not use the transport do not even load its table.
static zmq::atomic_value_t enabled (0);

void zmq::rdma_body_enable ()
{
    enabled.store (1);
}

void *zmq::rdma_body_alloc (size_t size_, void **hint_)
{
    if (likely (!enabled.load ()))
        return NULL;

    void *data = NULL;
    zmq_rdma_body_t *body = NULL;
    if (rdma_ops ()->take_body (size_, &data, &body) <= 0)
        return NULL;
    *hint_ = body;
    return data;
}

void zmq::rdma_body_free (void *, void *hint_)
{
    rdma_ops ()->give_body (static_cast<zmq_rdma_body_t *> (hint_));
}
