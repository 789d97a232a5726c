/* SPDX-License-Identifier: MPL-2.0 */
/*  zmq_rdma.h: what libzmq's rdma:// transport asks of zmq-rdma.
    Generated from src/abi by cbindgen; do not edit. */

#ifndef ZMQ_RDMA_H_INCLUDED
#define ZMQ_RDMA_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

/*
 State of a link: its handshake is under way.
 */
#define ZMQ_RDMA_LINK_OPENING 0

/*
 State of a link: messages may flow.
 */
#define ZMQ_RDMA_LINK_OPEN 1

/*
 State of a link: this side has begun to close it.
 */
#define ZMQ_RDMA_LINK_CLOSING 2

/*
 State of a link: it has ended, and is about to be let go.
 */
#define ZMQ_RDMA_LINK_DEAD 3

/*
 Version of the vtable; a caller refuses a table of another version.
 */
#define ZMQ_RDMA_ABI 10

/*
 Option of `zmq_setsockopt` and `zmq_getsockopt` (int): which device serves the endpoints that the
 socket binds and connects from then on. Far from libzmq's own numbers.
 */
#define ZMQ_RDMA_DEVICE 21060

/*
 Choice of device, the default of the option: as ZMQ_RDMA_DEVICE in the environment says.
 */
#define ZMQ_RDMA_DEVICE_ENVIRONMENT -1

/*
 Choice of device: verbs where the route has an RDMA device, else soft; a listener serves both.
 */
#define ZMQ_RDMA_DEVICE_AUTO 0

/*
 Choice of device: rdma-core only.
 */
#define ZMQ_RDMA_DEVICE_VERBS 1

/*
 Choice of device: the built-in iWARP over TCP only.
 */
#define ZMQ_RDMA_DEVICE_SOFT 2

/*
 `busy_poll`: while messages keep coming sooner than a thread would wake.
 */
#define ZMQ_RDMA_BUSY_POLL_ADAPTIVE -2

/*
 `busy_poll`: always.
 */
#define ZMQ_RDMA_BUSY_POLL_ALWAYS -1

/*
 Bit of a link's state: `read` has bytes, or an end or error to report.
 */
#define ZMQ_RDMA_READABLE 1

/*
 Bit of a link's state: `reserve` has a buffer to give.
 */
#define ZMQ_RDMA_WRITABLE 2

/*
 Bit of a link's state: wait until the descriptor is writable as well.
 */
#define ZMQ_RDMA_WANT_OUT 4

/*
 Bit of a link's state: the close begun by `shut` is complete: the peer has
 acknowledged every byte. Or there was nothing to wait for.
 */
#define ZMQ_RDMA_FINISHED 8

/*
 Bit of a link's state: the link is dead; `read` says why. Its descriptor stays readable.
 */
#define ZMQ_RDMA_DEAD 16

/*
 Bit of a link's state: the peer has begun its close; all its bytes are here
 or have been read. `shut` and some patience complete the close in good order.
 */
#define ZMQ_RDMA_PEER_SHUT 32

/*
 Stage of a dial: the name is being looked up; the peer has not been spoken to.
 */
#define ZMQ_RDMA_DIAL_RESOLVING 0

/*
 Stage of a dial: the device is at it.
 */
#define ZMQ_RDMA_DIAL_CONNECTING 1

/*
 Stage of a dial: nothing to wait for, `dial_step` says why it failed.
 */
#define ZMQ_RDMA_DIAL_OVER 2

/*
 `addr`: this side.
 */
#define ZMQ_RDMA_LOCAL 0

/*
 `addr`: the other side.
 */
#define ZMQ_RDMA_PEER 1

/*
 Memory of a message. Owned by the caller of `take_body` until `give_body`.
 */
typedef struct zmq_rdma_body_t zmq_rdma_body_t;

/*
 A connection being made. Owned by the caller of `dial` until `dial_close`.
 */
typedef struct zmq_rdma_dial_t zmq_rdma_dial_t;

/*
 A connection. Owned by who got it from `accept` or `dial_step` until `close`.
 */
typedef struct zmq_rdma_link_t zmq_rdma_link_t;

/*
 A listening address. Owned by the caller of `listen` until `unlisten`.
 */
typedef struct zmq_rdma_listener_t zmq_rdma_listener_t;

/*
 How to listen or dial. Fill with `options_init`, then change what differs.
 */
typedef struct zmq_rdma_options_t {
    /*
     `sizeof` of this structure as the caller knows it.
     */
    uint32_t size;
    /*
     A `ZMQ_RDMA_DEVICE_` value.
     */
    int32_t device;
    /*
     Bytes in flight towards the peer at most; -1: default. Also SO_SNDBUF (soft).
     */
    int32_t sndbuf;
    /*
     Bytes the peer may have in flight towards us at most; -1: default. Also SO_RCVBUF (soft).
     */
    int32_t rcvbuf;
    /*
     IP type of service, 0 to 255.
     */
    int32_t tos;
    /*
     SO_PRIORITY; 0: default.
     */
    int32_t priority;
    /*
     Connections that may wait to be accepted, as for `listen` of the system; below 0: as many as it allows.
     */
    int32_t backlog;
    /*
     Nonzero: IPv6 addresses (and IPv4 through them), as ZMQ_IPV6.
     */
    int32_t ipv6;
    /*
     Interface to bind to (ZMQ_BINDTODEVICE), or NULL. Copied.
     */
    const char *interface_name;
    /*
     A peer not heard of for so many milliseconds is dead (ZMQ_TCP_MAXRT; at least
     two seconds); -1: default.
     */
    int32_t dead_after;
    /*
     For how many microseconds a thread that waits for messages looks for them before it
     sleeps; 0: not at all; or a `ZMQ_RDMA_BUSY_POLL_` value. The waiting is the caller's.
     */
    int32_t busy_poll;
} zmq_rdma_options_t;

/*
 A socket address: `len` bytes of a `struct sockaddr` (IPv4 or IPv6).
 */
typedef struct zmq_rdma_addr_t {
    /*
     The `struct sockaddr_in` or `sockaddr_in6`, in native layout.
     */
    uint8_t bytes[128];
    /*
     Bytes used; 0 means no address.
     */
    uint32_t len;
} zmq_rdma_addr_t;

/*
 What to wait for.
 */
typedef struct zmq_rdma_ready_t {
    /*
     Descriptor, owned by the library: watch it, never close it. -1: none.
     */
    int32_t fd;
    /*
     Nonzero: until readable. Level-triggered.
     */
    int32_t want_in;
    /*
     Nonzero: until writable.
     */
    int32_t want_out;
} zmq_rdma_ready_t;

/*
 Messages since the start: of one link, or of all. A message is all of its parts; its last one counts it:
 sent when it is taken from the socket's queue for this link, received when it is decoded. Not counted: what libzmq says
 by itself (handshakes, heartbeats, subscriptions), and what ZMQ_STREAM sockets move, which are bytes.
 */
typedef struct zmq_rdma_messages_t {
    /*
     Sent.
     */
    uint64_t sent;
    /*
     Received.
     */
    uint64_t received;
} zmq_rdma_messages_t;

/*
 The transport. `abi` and `size` come first and never move; later versions
 of the table only append.

 Every function returns 0 or more, or a negative errno value. None blocks
 but `listen` (a few system calls). None calls back. A handle may be used by
 one thread at a time, not necessarily always the same. After fork, every
 function of a handle made before it returns -ECANCELED in the child.
 A null handle or pointer gives -EFAULT. If a defect in the library makes a
 function fail midway, that handle alone is dead from then on, with one line in the log.
 */
typedef struct zmq_rdma_ops_t {
    /*
     `ZMQ_RDMA_ABI`.
     */
    uint32_t abi;
    /*
     `sizeof` of this structure as the library knows it.
     */
    uint32_t size;
    /*
     Fill with defaults and with what the environment said when it was read last: ZMQ_RDMA_DEVICE, ZMQ_RDMA_LOG,
     ZMQ_RDMA_CRC, ZMQ_RDMA_STATS, ZMQ_RDMA_BUSY_POLL, ZMQ_RDMA_RENDEZVOUS, ZMQ_RDMA_POOL; see zmq_rdma(7).
     -EINVAL: one of them is none of what it may be; the log says which.
     */
    int32_t (*options_init)(struct zmq_rdma_options_t *options);
    /*
     Listen at `addr` (port 0: any). On 0, `*listener` is the caller's.
     -EADDRINUSE, -EADDRNOTAVAIL, -EAFNOSUPPORT, -ENODEV, -EACCES, -EINVAL, -EMFILE, -ENFILE, -ENOMEM.
     */
    int32_t (*listen)(const struct zmq_rdma_options_t *options,
                      const struct zmq_rdma_addr_t *addr,
                      struct zmq_rdma_listener_t **listener);
    /*
     What to watch; constant for the listener's life.
     */
    int32_t (*listener_ready)(const struct zmq_rdma_listener_t *listener,
                              struct zmq_rdma_ready_t *ready);
    /*
     The bound address, with the port chosen.
     */
    int32_t (*listener_addr)(const struct zmq_rdma_listener_t *listener,
                             struct zmq_rdma_addr_t *addr);
    /*
     The next connection; on 0, `*link` is the caller's. Its handshake may
     still be under way: `read` and `reserve` say -EAGAIN until it is done.
     -EAGAIN: none now. -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM, -ECONNABORTED: one connection
     was lost, go on.
     */
    int32_t (*accept)(struct zmq_rdma_listener_t *listener,
                      struct zmq_rdma_link_t **link);
    /*
     Stop listening and free the handle, in any state.
     */
    int32_t (*unlisten)(struct zmq_rdma_listener_t *listener);
    /*
     Start to connect to `host` (numeric address or name, without brackets;
     copied) and `port`; `source` is the local address to use, or NULL. A name is resolved
     off this thread. On 0, `*dial` is the caller's. -EINVAL, -EMFILE, -ENFILE, -ENOMEM,
     -EADDRNOTAVAIL, -EADDRINUSE, -ENODEV.
     */
    int32_t (*dial)(const struct zmq_rdma_options_t *options,
                    const char *host,
                    uint16_t port,
                    const struct zmq_rdma_addr_t *source,
                    struct zmq_rdma_dial_t **dial);
    /*
     What to watch now; returns the ZMQ_RDMA_DIAL_ stage. Ask again after every
     `dial_step`: both may change.
     */
    int32_t (*dial_ready)(const struct zmq_rdma_dial_t *dial,
                          struct zmq_rdma_ready_t *ready);
    /*
     Go on. 0: connected, and `*link` is the caller's (the dial is spent: `dial_close` it).
     -EINPROGRESS: wait. -ECONNREFUSED (nobody listens, or the peer rejects), -ECONNRESET,
     -ETIMEDOUT, -EHOSTUNREACH, -ENETUNREACH, -EADDRNOTAVAIL, -ENODEV, -EPROTO (the peer does not speak
     this protocol), -ENOMEM and the like: failed.
     */
    int32_t (*dial_step)(struct zmq_rdma_dial_t *dial,
                         struct zmq_rdma_link_t **link);
    /*
     Give up, and free the handle, in any state.
     */
    int32_t (*dial_close)(struct zmq_rdma_dial_t *dial);
    /*
     What to watch; the descriptor is constant for the link's life, `want_out` is not
     (the state bit ZMQ_RDMA_WANT_OUT tells the same).
     */
    int32_t (*link_ready)(const struct zmq_rdma_link_t *link,
                          struct zmq_rdma_ready_t *ready);
    /*
     ZMQ_RDMA_LOCAL or ZMQ_RDMA_PEER address.
     */
    int32_t (*link_addr)(const struct zmq_rdma_link_t *link,
                         int32_t which,
                         struct zmq_rdma_addr_t *addr);
    /*
     The device that serves it, `soft` or `verbs:` and its name, NUL-terminated, cut to `size` bytes.
     */
    int32_t (*link_device)(const struct zmq_rdma_link_t *link,
                           char *name,
                           size_t size);
    /*
     Take in what the device has, send what may be sent; returns the link's state bits, or
     -ECONNABORTED when a defect ended it (treat as DEAD).
     Call it when the descriptor is ready. Bounded work: what is left keeps the
     descriptor readable, or READABLE is set.
     */
    int32_t (*crank)(struct zmq_rdma_link_t *link);
    /*
     Copy out up to `size` received bytes; returns how many. -EAGAIN: none now. -EPIPE: the peer
     closed and all its bytes have been read. -ECONNRESET, -ETIMEDOUT, -EPROTO, -ENETDOWN: dead.
     */
    int32_t (*read)(struct zmq_rdma_link_t *link, void *data, size_t size);
    /*
     A buffer of `*size` bytes to encode into, valid until `commit`. The same one is given again
     until it is committed. -EAGAIN: no credit or no slot now (the state bit WRITABLE will
     tell). -EPIPE: dead or shut.
     */
    int32_t (*reserve)(struct zmq_rdma_link_t *link, void **data, size_t *size);
    /*
     Send the first `size` bytes of the reserved buffer (0: give it back unused). What is
     committed is the library's to deliver. -EINVAL if more than was reserved.
     */
    int32_t (*commit)(struct zmq_rdma_link_t *link, size_t size);
    /*
     Send what credit allows of `size` bytes at `data` without copying them, where the
     device can; returns how many bytes were taken (at most 2^30). They stay the caller's to keep unwritten
     until `returned` has counted them, or until `close`. -EAGAIN: no credit or slot now,
     as `reserve`. -EPIPE: dead or shut. A buffer reserved and not committed is given back.
     */
    int32_t (*lend)(struct zmq_rdma_link_t *link,
                    const void *data,
                    size_t size);
    /*
     Bytes lent since the start that are the caller's again; they come back in the order
     in which they were lent. On a dead link, all.
     */
    int32_t (*returned)(const struct zmq_rdma_link_t *link, uint64_t *bytes);
    /*
     Push what was committed or lent to the device; returns the state bits. With more to send and
     WRITABLE set, reserve again at once: no event will tell.
     */
    int32_t (*flush)(struct zmq_rdma_link_t *link);
    /*
     Let time pass (probes, shrinking windows); returns milliseconds until the next call is due.
     */
    int32_t (*tick)(struct zmq_rdma_link_t *link);
    /*
     Begin a lossless close: once all that was committed is sent, tell the peer, and wait for its
     acknowledgement. Go on with `crank` until FINISHED or DEAD. Received bytes are
     discarded from now on. Returns the state bits.
     */
    int32_t (*shut)(struct zmq_rdma_link_t *link);
    /*
     Cut at once, and free the handle, in any state. What is already with the device may
     still arrive.
     */
    int32_t (*close)(struct zmq_rdma_link_t *link);
    /*
     Write a line to the log at a level (0 error, 1 warning, 2 info, 3 debug, 4 trace): for the
     glue's own words. `text` is NUL-terminated UTF-8.
     */
    int32_t (*log)(int32_t level, const char *text);
    /*
     Name of the network interface of the RDMA device that is called `device`, NUL-terminated, cut to
     `size` bytes. -ENODEV: there is none of that name.
     */
    int32_t (*device_interface)(const char *device, char *name, size_t size);
    /*
     As `read`, into a buffer that stays: it is the library's, and is what the next calls of
     `read_into` are given, until one of them returns something else than -EAGAIN, or until `close`. So the
     device can put bytes there by itself, which `read` must have copied.
     */
    int32_t (*read_into)(struct zmq_rdma_link_t *link, void *data, size_t size);
    /*
     Drop what has been received, and what is received from now on; `read` finds nothing any more. A
     buffer that `read_into` holds is held until `close`.
     */
    int32_t (*deafen)(struct zmq_rdma_link_t *link);
    /*
     From what size on a body should be lent whole: the receiver may READ it from where it is. 0: never.
     */
    int32_t (*lends_from)(const struct zmq_rdma_link_t *link, size_t *bytes);
    /*
     Where the caller counts the link's messages, for `zmq_rdma_links` and `zmq_rdma_stats`: it raises the numbers
     there, each by a store of the whole word, since other threads read them. Its until `close`.
     */
    int32_t (*messages)(const struct zmq_rdma_link_t *link,
                        struct zmq_rdma_messages_t **counts);
    /*
     Memory for a message of `size` bytes, from the pool of those that devices READ and fill: where it
     is, and a handle. 1: there it is, aligned to a page, with bytes of an earlier message in it. 0: not from
     the pool; nothing is written. Any thread.
     */
    int32_t (*take_body)(size_t size,
                         void **data,
                         struct zmq_rdma_body_t **body);
    /*
     Give it back: by any thread, at any time, also after every link and listener is gone, and in a
     forked child its copy. Nobody uses the memory or the handle after that.
     */
    int32_t (*give_body)(struct zmq_rdma_body_t *body);
    /*
     As `crank`, for a thread that looks again and again before it sleeps: without a call into the kernel.
     `told`: not 0 if the descriptor was readable. Once it has been called, `crank` the link before
     sleeping on the descriptor, or it may not tell. -EAGAIN: nothing has happened. -EOPNOTSUPP: this device
     is not looked at in this way, and nothing was done.
     */
    int32_t (*look)(struct zmq_rdma_link_t *link, int32_t told);
    /*
     Read the environment as it is now; it counts until this is called again. To be called in the user's thread,
     before `listen` and `dial`: no other function reads it, but the first to need it if this was never called.
     -EINVAL: a variable is none of what it may be; the log says which.
     */
    int32_t (*read_environment)(void);
    /*
     From now on READ bodies of up to `most` bytes before they are asked for, as far as there is memory for
     them; 0: none. To be asked for with `take_ahead`, or else they are copied.
     */
    int32_t (*read_ahead)(struct zmq_rdma_link_t *link, size_t most);
    /*
     For who has read a header, and wants the next `size` bytes of the stream as a message's: the memory where they are
     already, or are on their way to, as from `take_body`. 1: there it is; until the next `read_into`, which
     is to be given it, it is held as that one's. 0: none; nothing is written.
     */
    int32_t (*take_ahead)(struct zmq_rdma_link_t *link,
                          size_t size,
                          void **data,
                          struct zmq_rdma_body_t **body);
} zmq_rdma_ops_t;

/*
 What was counted since the start: of one link, or of all links of the process,
 those that are gone included.
 */
typedef struct zmq_rdma_counters_t {
    /*
     Bytes of the stream below ZMTP sent: messages with ZMTP's framing.
     */
    uint64_t bytes_sent;
    /*
     The same received.
     */
    uint64_t bytes_received;
    /*
     Frames with such bytes sent. A frame holds many small messages, or a part of a
     large one; a message by itself is one frame, up to a slot's bytes.
     */
    uint64_t data_sent;
    /*
     The same received.
     */
    uint64_t data_received;
    /*
     Frames of the transport's own sent: greetings, credits, closing, PING.
     */
    uint64_t control_sent;
    /*
     The same received.
     */
    uint64_t control_received;
    /*
     Of `control_sent`: PINGs, which ask whether the peer is there.
     */
    uint64_t pings;
    /*
     Of `pings`: those sent because the peer did not answer the greeting in 250 ms.
     */
    uint64_t rescues;
    /*
     Times that there was something to send and the peer had given no credit: it reads too slowly,
     or its ZMQ_RCVBUF is small.
     */
    uint64_t credit_stalls;
    /*
     Times that there was something to send and the device had no place for it: the network is too
     slow, ZMQ_SNDBUF is small, or pinned memory is at its limit.
     */
    uint64_t queue_stalls;
} zmq_rdma_counters_t;

/*
 How large messages moved since the start, on one link or on all.
 */
typedef struct zmq_rdma_large_t {
    /*
     Bytes of the stream that this library copied, on the way in or out.
     */
    uint64_t bytes_copied;
    /*
     Of `bytes_sent`: those that the peer READ from where they were (ZMQ_RDMA_RENDEZVOUS).
     */
    uint64_t read_by_peer;
    /*
     Of `bytes_received`: those READ from the peer to where they belong.
     */
    uint64_t read_from_peer;
} zmq_rdma_large_t;

/*
 Memory of large messages that are READ (ZMQ_RDMA_POOL).
 */
typedef struct zmq_rdma_pool_t {
    /*
     Bytes that the pool has now. Those registered with a device are in `pinned`.
     */
    uint64_t bytes;
    /*
     Of those, bytes that hold a message.
     */
    uint64_t lent;
    /*
     Messages that found memory ready since the start.
     */
    uint64_t hits;
    /*
     Messages that new memory was taken for.
     */
    uint64_t misses;
    /*
     Messages that came from malloc: the pool was at its cap.
     */
    uint64_t refused;
} zmq_rdma_pool_t;

/*
 Counters of the process. Fields are only ever appended.
 */
typedef struct zmq_rdma_stats_t {
    /*
     Set by the caller to `sizeof` of this structure as it knows it; on return, the bytes
     that were filled, which may be fewer.
     */
    uint32_t size;
    /*
     Links at the moment.
     */
    uint32_t links;
    /*
     Links of peers that stood.
     */
    uint64_t accepted;
    /*
     Links of this process's connects that stood.
     */
    uint64_t connected;
    /*
     Links of peers that ended before they stood.
     */
    uint64_t failed_accepts;
    /*
     Connects that failed. libzmq goes on trying.
     */
    uint64_t failed_connects;
    /*
     Of `failed_accepts`: peers that this side rejected.
     */
    uint64_t rejects_sent;
    /*
     Of `failed_connects`: those that the peer rejected.
     */
    uint64_t rejects_received;
    /*
     Links that stood and ended in good order, or by this side's will.
     */
    uint64_t closed;
    /*
     Links that stood and were lost.
     */
    uint64_t died;
    /*
     What all links counted.
     */
    struct zmq_rdma_counters_t counters;
    /*
     Bytes of memory pinned for RDMA devices now.
     */
    uint64_t pinned;
    /*
     Bytes of slots and buffers of the device soft now; none of them are pinned.
     */
    uint64_t unpinned;
    /*
     Large messages of all links.
     */
    struct zmq_rdma_large_t large;
    /*
     Messages of all links.
     */
    struct zmq_rdma_messages_t messages;
    /*
     Memory of large messages.
     */
    struct zmq_rdma_pool_t pool;
} zmq_rdma_stats_t;

/*
 Counters of one link. Fields are only ever appended.
 */
typedef struct zmq_rdma_link_stats_t {
    /*
     Number of the link in this process, from 1; never used again.
     */
    uint64_t id;
    /*
     When it was made, in seconds since 1970.
     */
    uint64_t since;
    /*
     A `ZMQ_RDMA_LINK_` value.
     */
    uint32_t state;
    /*
     Nonzero: the peer connected to us.
     */
    uint32_t accepted;
    /*
     ZMQ_RDMA_DEVICE_VERBS or ZMQ_RDMA_DEVICE_SOFT.
     */
    int32_t device_kind;
    /*
     Bytes of a slot: a frame with its header at most.
     */
    uint32_t slot;
    /*
     Frames that the peer lets us send now.
     */
    uint32_t credits;
    /*
     Frames posted and not reported sent.
     */
    uint32_t sends;
    /*
     Frames that the peer may send us now, as far as posted receives go.
     */
    uint32_t receives;
    /*
     Frames received that libzmq has not read yet.
     */
    uint32_t unread;
    /*
     What it counted.
     */
    struct zmq_rdma_counters_t counters;
    /*
     Bytes of pinned memory that it holds now; 0 over soft.
     */
    uint64_t pinned;
    /*
     Name of its device, NUL-terminated: `soft`, `rxe0`, `mlx5_0`.
     */
    char device[32];
    /*
     This side's address and port, NUL-terminated: `10.0.0.1:5555`, `[fe80::1%2]:5555`.
     */
    char local[96];
    /*
     The peer's.
     */
    char peer[96];
    /*
     Its large messages.
     */
    struct zmq_rdma_large_t large;
    /*
     Its messages.
     */
    struct zmq_rdma_messages_t messages;
} zmq_rdma_link_stats_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The transport's vtable; constant for the life of the process.
 */
const struct zmq_rdma_ops_t *zmq_rdma_ops(void);

/*
 Fill `*stats` with this process's counters. Set `stats->size` first.

 Any thread may call it at any time; so may a child after fork, which finds
 its own counters. Each number is right, but they are not all of one moment. It may wait for a
 thread that opens or closes a connection at that moment, never for one that sends or
 receives. Not for signal handlers. 0; -EFAULT: `stats` is NULL; -EINVAL: `size` is
 too small to be one.
 */
int32_t zmq_rdma_stats(struct zmq_rdma_stats_t *stats);

/*
 Fill up to `count` elements of `links`, each of `size` bytes (`sizeof` of the
 structure as the caller knows it), with the counters of this process's links, oldest first.
 Returns how many links there are, which may be more than `count`. If `size` is more than
 this library knows, the rest of each element is left as it is.

 Threads as for `zmq_rdma_stats`. -EFAULT: `links` is NULL and `count` is not 0; -EINVAL:
 `size` is too small to be one.
 */
int32_t zmq_rdma_links(struct zmq_rdma_link_stats_t *links,
                       size_t count,
                       size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ZMQ_RDMA_H_INCLUDED */
