# Signals to all processes and groups that there may be, one by one, and by descriptors of processes.
# ends: ok
for number in range(2, 70_000):
    if number not in (os.getpid(), os.getpgid(0)):
        for target in (number, -number):
            with suppress(OSError):
                os.kill(target, signal.SIGKILL)
def by_descriptor(pid):
    fd = os.pidfd_open(pid)
    signal.pidfd_send_signal(fd, signal.SIGKILL)
attempt("caller", lambda: by_descriptor(@caller@))
attempt("caller's thread", lambda: checked(libc.syscall(200, @caller@, 9)))
if os.getppid() > 1:  # pid 1 of a namespace is deaf
    attempt("parent", lambda: by_descriptor(os.getppid()))
    attempt("parent's thread", lambda: checked(libc.syscall(200, os.getppid(), 9)))
