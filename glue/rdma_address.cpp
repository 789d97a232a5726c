/* SPDX-License-Identifier: MPL-2.0 */

#include "precompiled.hpp"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>

#include <sys/types.h>
#include <sys/socket.h>
#include <net/if.h>
#include <netdb.h>

#include "rdma_address.hpp"
#include "busy_poll.hpp"
#include "err.hpp"
#include "ip_resolver.hpp"
#include "options.hpp"
#include "rdma_body.hpp"
#include "tcp_address.hpp"
#include "zmq_draft.h"

static const zmq_rdma_ops_t *checked_ops ()
{
    const zmq_rdma_ops_t *const ops = zmq_rdma_ops ();
    if (ops && ops->abi == ZMQ_RDMA_ABI && ops->size >= sizeof (zmq_rdma_ops_t))
        return ops;

    //  No log to write to: that would be the table's to offer.
    fprintf (stderr,
             "libzmq: rdma:// is off: the RDMA library offers version %u "
             "(%u bytes) of its interface, needed is version %u (%u bytes)\n",
             ops ? static_cast<unsigned int> (ops->abi) : 0,
             ops ? static_cast<unsigned int> (ops->size) : 0,
             static_cast<unsigned int> (ZMQ_RDMA_ABI),
             static_cast<unsigned int> (sizeof (zmq_rdma_ops_t)));
    return NULL;
}

const zmq_rdma_ops_t *zmq::rdma_ops ()
{
    static const zmq_rdma_ops_t *const ops = checked_ops ();
    return ops;
}

zmq::fd_t zmq::rdma_link_fd (zmq_rdma_link_t *link_)
{
    zmq_rdma_ready_t ready;
    const int rc = rdma_ops ()->link_ready (link_, &ready);
    return rc >= 0 && ready.fd >= 0 ? static_cast<fd_t> (ready.fd)
                                    : static_cast<fd_t> (retired_fd);
}

void zmq::rdma_log (rdma_log_level_t level_, const std::string &text_)
{
    rdma_ops ()->log (level_, text_.c_str ());
}

int zmq::rdma_options (const options_t &options_, zmq_rdma_options_t *out_)
{
    memset (out_, 0, sizeof (*out_));
    out_->size = sizeof (*out_);
    const int rc = rdma_ops ()->options_init (out_);
    if (rc < 0) {
        errno = -rc;
        return -1;
    }

    rdma_body_enable ();

    if (options_.rdma_device.value != ZMQ_RDMA_DEVICE_ENVIRONMENT)
        out_->device = options_.rdma_device.value;
    out_->sndbuf = options_.sndbuf;
    out_->rcvbuf = options_.rcvbuf;
    out_->tos = options_.tos;
    out_->priority = options_.priority;
    out_->backlog = options_.backlog;
    out_->ipv6 = options_.ipv6 ? 1 : 0;
    if (options_.tcp_maxrt > 0)
        out_->dead_after = options_.tcp_maxrt;
    if (!options_.bound_device.empty ())
        out_->interface_name = options_.bound_device.c_str ();
    return 0;
}

int zmq::rdma_busy_poll (const options_t &options_)
{
#ifdef ZMQ_BUSY_POLL
    if (options_.busy_poll > 0)
        return options_.busy_poll;
#else
    LIBZMQ_UNUSED (options_);
#endif
    //  What is wrong with the environment, bind and connect tell.
    zmq_rdma_options_t options;
    memset (&options, 0, sizeof (options));
    options.size = sizeof (options);
    return rdma_ops ()->options_init (&options) < 0
             ? static_cast<int> (busy_poll_t::never)
             : options.busy_poll;
}

//  Reads the environment. An I/O thread would do so while the user changes it,
//  and could tell nobody but the log what is wrong with it.
static bool environment_is_good ()
{
    const int rc = zmq::rdma_ops ()->read_environment ();
    if (rc < 0)
        errno = -rc;
    return rc >= 0;
}

bool zmq::rdma_may_bind (const options_t &options_)
{
    if (options_.use_fd == -1)
        return environment_is_good ();
    rdma_log (rdma_log_error, "rdma:// cannot take over a descriptor: "
                              "ZMQ_USE_FD is for other transports");
    errno = EINVAL;
    return false;
}

bool zmq::rdma_may_connect (const options_t &options_)
{
    if (options_.socks_proxy_address.empty ())
        return environment_is_good ();
    rdma_log (rdma_log_error, "rdma:// cannot pass through a proxy: "
                              "ZMQ_SOCKS_PROXY is for tcp://");
    errno = EINVAL;
    return false;
}

std::string zmq::rdma_endpoint (const std::string &tcp_endpoint_)
{
    const std::string tcp_scheme = std::string (protocol_name::tcp) + "://";
    if (tcp_endpoint_.compare (0, tcp_scheme.size (), tcp_scheme) != 0)
        return tcp_endpoint_;
    return std::string (protocol_name::rdma) + "://"
           + tcp_endpoint_.substr (tcp_scheme.size ());
}

//  The address with the network interface's name in the place of its RDMA
//  device's. A network interface of the same name goes first.
static std::string with_interface (const char *name_)
{
    const std::string address (name_);
    const std::string::size_type colon = address.rfind (':');
    if (colon == std::string::npos)
        return address;

    const std::string device = address.substr (0, colon);
    char interface[64];
    if (if_nametoindex (device.c_str ()) != 0
        || zmq::rdma_ops ()->device_interface (device.c_str (), interface,
                                               sizeof (interface))
             < 0)
        return address;
    return interface + address.substr (colon);
}

zmq::rdma_address_t::rdma_address_t ()
{
    memset (&raw, 0, sizeof (raw));
}

void zmq::rdma_address_t::set (const sockaddr *sa_, zmq_socklen_t len_)
{
    zmq_assert (len_ <= sizeof (raw.bytes));
    memset (&raw, 0, sizeof (raw));
    memcpy (raw.bytes, sa_, len_);
    raw.len = len_;
}

int zmq::rdma_address_t::resolve (const char *name_, bool ipv6_)
{
    tcp_address_t address;
    if (address.resolve (with_interface (name_).c_str (), true, ipv6_) != 0)
        return -1;
    set (address.addr (), address.addrlen ());
    return 0;
}

int zmq::rdma_address_t::resolve_source (const char *name_, bool ipv6_)
{
    ip_resolver_options_t resolver_opts;
    resolver_opts.bindable (true)
      .allow_dns (false)
      .allow_nic_name (true)
      .ipv6 (ipv6_)
      .expect_port (true);

    ip_addr_t address;
    if (ip_resolver_t (resolver_opts)
          .resolve (&address, with_interface (name_).c_str ())
        != 0)
        return -1;
    set (address.as_sockaddr (), address.sockaddr_len ());
    return 0;
}

zmq::zmq_socklen_t zmq::rdma_address_t::get (sockaddr_storage *ss_) const
{
    memset (ss_, 0, sizeof (*ss_));
    memcpy (ss_, raw.bytes, raw.len);
    return raw.len;
}

std::string zmq::rdma_address_t::to_string () const
{
    std::string text;
    if (raw.len > 0) {
        sockaddr_storage ss;
        const zmq_socklen_t len = get (&ss);
        tcp_address_t (reinterpret_cast<sockaddr *> (&ss), len)
          .to_string (text);
    }
    return rdma_endpoint (text);
}

std::string zmq::rdma_address_t::ip () const
{
    if (raw.len == 0)
        return std::string ();

    sockaddr_storage ss;
    const zmq_socklen_t len = get (&ss);
    char host[NI_MAXHOST];
    const int rc = getnameinfo (reinterpret_cast<sockaddr *> (&ss), len, host,
                                sizeof (host), NULL, 0, NI_NUMERICHOST);
    return rc == 0 ? std::string (host) : std::string ();
}

int zmq::rdma_target_t::parse (const std::string &address_, bool ipv6_)
{
    has_source = false;
    std::string target = address_;

    const std::string::size_type semicolon = address_.rfind (';');
    if (semicolon != std::string::npos) {
        const std::string from = address_.substr (0, semicolon);
        if (source.resolve_source (from.c_str (), ipv6_) != 0)
            return -1;
        has_source = true;
        target = address_.substr (semicolon + 1);
    }

    const std::string::size_type colon = target.rfind (':');
    if (colon == std::string::npos) {
        errno = EINVAL;
        return -1;
    }
    host = target.substr (0, colon);
    if (host.size () >= 2 && host[0] == '[' && host[host.size () - 1] == ']')
        host = host.substr (1, host.size () - 2);

    //  Numbers that do not fit wrap around, as they do in tcp.
    const std::string number = target.substr (colon + 1);
    port = static_cast<uint16_t> (atoi (number.c_str ()));
    if (host.empty () || (port == 0 && number != "0")) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}
