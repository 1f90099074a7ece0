# Signals to all processes and groups that there may be, one by one, and by descriptors of processes.
# ends: ok
import ctypes, signal
libc = ctypes.CDLL(None, use_errno=True)
for number in range(2, 70_000):
    if number not in (os.getpid(), os.getpgid(0)):
        for target in (number, -number):
            try:
                os.kill(target, signal.SIGKILL)
            except OSError:
                pass
def by_descriptor(pid):
    fd = os.pidfd_open(pid)
    signal.pidfd_send_signal(fd, signal.SIGKILL)
def by_thread(pid):
    if libc.syscall(200, pid, 9) < 0:
        raise OSError(ctypes.get_errno(), "tkill")
attempt("caller", lambda: by_descriptor(@caller@))
attempt("caller's thread", lambda: by_thread(@caller@))
if os.getppid() > 1:  # pid 1 of a namespace is deaf
    attempt("parent", lambda: by_descriptor(os.getppid()))
    attempt("parent's thread", lambda: by_thread(os.getppid()))
