/* SPDX-License-Identifier: MPL-2.0 */
/*  Linked into each copy of a libzmq test: runs one case of it in a process
    of its own, in a network of its own, so that cases neither share ports nor
    end one another.

    PARITY_CASE: the case to run; "?": name them all and run none.
    PARITY_NETNS: set: leave the machine's network, for one with a loopback that
    has the address ZT_HOST. */

#include "bridge.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

bool parity_wanted (const char *case_)
{
    const char *const wanted = getenv ("PARITY_CASE");
    if (!wanted)
        return true;
    if (strcmp (wanted, "?") == 0) {
        printf ("CASE %s\n", case_);
        return false;
    }
    return strcmp (wanted, case_) == 0;
}

static void loopback_up ()
{
    ifreq request;
    memset (&request, 0, sizeof (request));
    strcpy (request.ifr_name, "lo");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    const int fd = socket (AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || ioctl (fd, SIOCSIFFLAGS, &request) != 0) {
        perror ("parity: lo");
        _exit (99);
    }
    const char *const host = getenv ("ZT_HOST");
    if (host && strcmp (host, "127.0.0.1") != 0) {
        sockaddr_in address;
        memset (&address, 0, sizeof (address));
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = inet_addr (host);
        strcpy (request.ifr_name, "lo:1");
        memcpy (&request.ifr_addr, &address, sizeof (address));
        if (ioctl (fd, SIOCSIFADDR, &request) != 0) {
            perror ("parity: address");
            _exit (99);
        }
    }
    close (fd);
}

//  Before main, while there is one thread.
__attribute__ ((constructor)) static void leave_network ()
{
    if (!getenv ("PARITY_NETNS"))
        return;
    if (unshare (CLONE_NEWNET) != 0
        && unshare (CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        perror ("parity: unshare");
        _exit (99);
    }
    loopback_up ();
}
