/* SPDX-License-Identifier: MPL-2.0 */

#ifndef __ZMQ_RDMA_ADDRESS_HPP_INCLUDED__
#define __ZMQ_RDMA_ADDRESS_HPP_INCLUDED__

#include <string>

#include "../include/zmq_rdma.h"
#include "address.hpp"
#include "fd.hpp"
#include "stdint.hpp"

namespace zmq
{
struct options_t;

namespace protocol_name
{
static const char rdma[] = "rdma";
}

//  The door to the RDMA library, or NULL if it is not one that this glue knows.
const zmq_rdma_ops_t *rdma_ops ();

//  Descriptor to poll for a link, or retired_fd if it has none.
fd_t rdma_link_fd (zmq_rdma_link_t *link_);

//  Writes a line to the RDMA library's log.
enum rdma_log_level_t
{
    rdma_log_error = 0,
    rdma_log_warning = 1
};
void rdma_log (rdma_log_level_t level_, const std::string &text_);

//  Tells the RDMA library what the socket options say about a connection.
//  The result refers to options_. Returns 0, or -1 and sets errno.
int rdma_options (const options_t &options_, zmq_rdma_options_t *out_);

//  What busy_poll_t is to be told for a connection or socket with these options.
int rdma_busy_poll (const options_t &options_);

//  Whether the socket options and the environment ask for nothing that this
//  transport cannot do; if they do, says so in the log, and sets errno. Reads
//  the environment: to be called in the user's thread.
bool rdma_may_bind (const options_t &options_);
bool rdma_may_connect (const options_t &options_);

//  An endpoint as tcp_address_t writes it, with our scheme instead of tcp's.
std::string rdma_endpoint (const std::string &tcp_endpoint_);

//  A socket address in the form in which it passes to and from the library.
class rdma_address_t
{
  public:
    rdma_address_t ();

    //  Resolves an address to bind to, just as tcp does: wildcards, interface
    //  names, host names; and names of RDMA devices, which stand for their
    //  interfaces. Returns 0, or -1 and sets errno.
    int resolve (const char *name_, bool ipv6_);

    //  The same for the source address of a connection: no host names.
    int resolve_source (const char *name_, bool ipv6_);

    //  The endpoint as the user would write it; empty if there is no address.
    std::string to_string () const;

    //  The bare IP address as text; empty if there is no address.
    std::string ip () const;

    //  Copies the address out, returns its length.
    zmq_socklen_t get (sockaddr_storage *ss_) const;

    //  For the library to read or to fill.
    zmq_rdma_addr_t raw;

  private:
    void set (const sockaddr *sa_, zmq_socklen_t len_);
};

//  Whom to connect to: "host:port" or "source:port;host:port".
struct rdma_target_t
{
    //  Takes an address apart; resolves the source, not the host. Returns 0,
    //  or -1 and sets errno.
    int parse (const std::string &address_, bool ipv6_);

    //  Numeric address, without brackets, or name.
    std::string host;
    uint16_t port;

    bool has_source;
    rdma_address_t source;
};
}

#endif
