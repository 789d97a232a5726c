/* SPDX-License-Identifier: MPL-2.0 */
/* bench WHAT SCHEME HOST SIZE MILLISECONDS PEERS IO-THREADS: measures one thing and prints a line of JSON.
   `bench schemes` names the schemes that this libzmq has. perf/run calls it. */

#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

static const struct {
    const char *name;
    void (*measure) (const struct job *job);
} measurements[] = {
  {"latency", measure_latency},
  {"throughput", measure_throughput},
  {"fanout", measure_fanout},
  {"crowd", measure_crowd},
};

static int name_schemes (void)
{
    int major, minor, patch;
    zmq_version (&major, &minor, &patch);
    printf ("{\"version\": \"%d.%d.%d\", \"schemes\": [%s%s\"tcp\", \"inproc\"]}\n", major, minor, patch,
            zmq_has ("rdma") ? "\"rdma\", " : "", zmq_has ("ipc") ? "\"ipc\", " : "");
    return 0;
}

int main (int argc, char **argv)
{
    if (argc == 2 && strcmp (argv[1], "schemes") == 0)
        return name_schemes ();
    if (argc == 8) {
        const struct job job = {argv[2], argv[3], strtoul (argv[4], NULL, 10), atoi (argv[5]),
                                atoi (argv[6]), atoi (argv[7])};
        for (size_t i = 0; i < sizeof measurements / sizeof *measurements; i++)
            if (strcmp (argv[1], measurements[i].name) == 0) {
                measurements[i].measure (&job);
                return 0;
            }
    }
    fprintf (stderr, "usage: bench WHAT SCHEME HOST SIZE MILLISECONDS PEERS IO-THREADS\n");
    return 2;
}
