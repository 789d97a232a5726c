/* SPDX-License-Identifier: MPL-2.0 */
/* Preloaded into a test process: a kernel without IPv6. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

int socket (int domain, int type, int protocol)
{
    static int (*next) (int, int, int);
    if (!next)
        *(void **) &next = dlsym (RTLD_NEXT, "socket");
    if (domain == AF_INET6) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    return next (domain, type, protocol);
}
