# Sets the clock by which it is timed.
# ends: ok
for clock in (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC):
    attempt(f"clock {clock}", lambda: time.clock_settime(clock, 1.0))
attempt("settimeofday", lambda: libc.settimeofday((ctypes.c_long * 2)(1, 1), None) == 0 or 1 / 0)
attempt("adjtimex", lambda: libc.adjtimex((ctypes.c_long * 26)(1)) >= 0 or 1 / 0)
