# Has the kernel send signals for it: when something happens at a descriptor. That the run ends well is the proof.
# ends: ok
for pid in (os.getppid(), 1, @caller@, -os.getppid(), -@caller@):
    for one, other in (os.pipe(), map(socket.socket.detach, socket.socketpair())):
        for number in (signal.SIGKILL, signal.SIGSTOP):
            with suppress(OSError):
                fcntl.fcntl(one, fcntl.F_SETOWN, pid)
                fcntl.fcntl(one, fcntl.F_SETSIG, number)
                fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
                os.write(other, b"x")
for fd in (1, 2):  # and when the caller reads what is printed here
    with suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETOWN, @caller@)
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
print("x" * 10_000, flush=True)
time.sleep(0.2)
attempt("caller", lambda: os.kill(@caller@, 0))
