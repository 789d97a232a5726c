/* SPDX-License-Identifier: MPL-2.0 */
/*  Prints the frequency of this machine's time stamp counter in kHz. The guest reads
    the same counter, but its own calibration fails on a busy machine by up to ten times. */

#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

/*  Nanoseconds, and the counter at that moment. */
static long long now (unsigned long long *ticks_)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC_RAW, &time);
    *ticks_ = __rdtsc ();
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main (void)
{
    unsigned long long first, last;
    const long long start = now (&first);
    long long end;
    do
        end = now (&last);
    while (end - start < 100000000);
    printf ("%lld\n", (long long) ((last - first) * 1000000.0 / (double) (end - start)));
    return 0;
}
