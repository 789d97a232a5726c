/* SPDX-License-Identifier: MPL-2.0 */

#ifndef __ZMQ_RDMA_BODY_HPP_INCLUDED__
#define __ZMQ_RDMA_BODY_HPP_INCLUDED__

#include <stddef.h>

namespace zmq
{
//  Shorter messages are not the RDMA library's to keep memory for.
const size_t rdma_body_least = 65536;

//  Memory for the body of a large message, from the RDMA library's pool, and
//  the hint to free it with. NULL if it has none to give, as it has not before
//  the first socket with a use for it. Any thread.
void *rdma_body_alloc (size_t size_, void **hint_);

//  Gives it back; a msg_free_fn. Any thread, at any time.
void rdma_body_free (void *data_, void *hint_);

//  From now on the library may have some.
void rdma_body_enable ();
}

#endif
