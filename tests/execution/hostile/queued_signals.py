# Signals and timers on their way are counted for all of a user's processes together.
# ends: ok
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
def flood(send):
    sent = 0
    while send() == 0:
        sent += 1
        if sent > 2000:
            return sent
    raise OSError(ctypes.get_errno(), f"after {sent}")
attempt("signals", lambda: flood(lambda: libc.sigqueue(os.getpid(), 40, 0)))
event = (ctypes.c_int * 16)(0, 0, 40, 0)  # struct sigevent: value, signal, notification
timer = ctypes.c_void_p()
attempt("timers", lambda: flood(lambda: libc.timer_create(1, event, ctypes.byref(timer))))
