/* Which clock the operations are timed with, and how fast it goes. */
#define _GNU_SOURCE
#include "process.h"
#include <string.h>
#include <sys/syscall.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

uint32_t clock_kind = TP_CLOCK_MONOTONIC;
static _Atomic uint64_t ticks_per_s; /* 0: not measured yet, which comes before the first ring */

static void pick_clock(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    if (__get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8))) { /* invariant: same rate on all cores, always */
        char source[16] = "";
        int fd = (int)syscall(SYS_openat, AT_FDCWD, "/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC, 0);
        if (fd >= 0) { /* where the kernel found it unfit it uses another */
            ssize_t n = syscall(SYS_read, fd, source, sizeof source - 1);
            syscall(SYS_close, fd);
            if (n > 3 && (!strncmp(source, "tsc", 3) || !strncmp(source, "kvm-clock", 9)))
                clock_kind = TP_CLOCK_TSC;
        }
    }
#endif
}

static struct instant loaded; /* when the library was */

/* The best of three tries: in between we may have lost the core. */
struct instant instant_now(void)
{
    struct instant best = {0, 0, UINT64_MAX};
    for (int i = 0; i < 3; i++) {
        uint64_t before = monotonic_ns(), ticks = now_ticks(), after = monotonic_ns();
        if (after - before < best.width)
            best = (struct instant){ticks, before + (after - before) / 2, after - before};
    }
    return best;
}

void clock_start(void)
{
    pick_clock();
    loaded = instant_now();
}

uint64_t clock_rate(void)
{
    return atomic_load_explicit(&ticks_per_s, memory_order_relaxed);
}

/* Measures the clock's rate since the library was loaded. Usually that is long ago; else wait until the rate is known to 0.2 %, but
 * not for long where the system is slow to tell the time. Threads that measure at once agree on one. */
void clock_measure(void)
{
    if (clock_rate())
        return;
    enum { EXACT = 500, LEAST_NS = 20000, MOST_NS = 1000000 };
    uint64_t rate = 1000000000, none = 0;
    if (clock_kind != TP_CLOCK_MONOTONIC) {
        struct instant now;
        uint64_t ns;
        do {
            now = instant_now();
            ns = now.ns - loaded.ns;
        } while (ns < LEAST_NS || (ns < MOST_NS && ns < EXACT * (now.width + loaded.width)));
        rate = (uint64_t)((double)(now.ticks - loaded.ticks) / (double)ns * 1e9);
    }
    atomic_compare_exchange_strong(&ticks_per_s, &none, rate ? rate : 1);
}
