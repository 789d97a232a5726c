/* SPDX-License-Identifier: MPL-2.0 */
/*  Linked into libzmq's tests when they run over rdma://: what stands in for
    a BSD socket that a test opens to an endpoint, and what picks the test
    cases to run. */

#ifndef PARITY_BRIDGE_HPP_INCLUDED
#define PARITY_BRIDGE_HPP_INCLUDED

//  A descriptor that carries the same bytes as a BSD socket connected to the
//  endpoint would, over a link. -1 if there is nobody.
int parity_dial (const char *endpoint_);

//  A descriptor to call accept() on, which yields descriptors of that kind;
//  writes the endpoint that leads to it.
int parity_listen (const char *host_, const char *port_, char *my_endpoint_);

//  Whether the environment wants this test case run in this process.
bool parity_wanted (const char *case_);

#endif
