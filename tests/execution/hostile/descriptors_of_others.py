# Looks for open files and sockets: inherited ones, and those of other processes.
# ends: ok
def inherited():
    found = []
    for fd in range(3, 4096):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [name for name in found if "/urandom" not in name] or 1 / 0
attempt("inherited", inherited)
for pid in (1, os.getppid(), @caller@):
    attempt(f"fd {pid}", lambda: os.readlink(f"/proc/{pid}/fd/0"))
    attempt(f"getfd {pid}", lambda: checked(libc.syscall(438, os.pidfd_open(pid), 0, 0)))
