# Looks for open files and sockets: inherited ones, and those of other processes.
# ends: ok
def inherited():
    found = []
    for fd in range(3, 4096):
        try:
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            pass
    return [name for name in found if "/urandom" not in name] or 1 / 0
attempt("inherited", inherited)
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def pidfd_getfd(pid):
    fd = libc.syscall(434, pid, 0)
    if fd < 0 or libc.syscall(438, fd, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
for pid in (1, os.getppid(), @caller@):
    attempt(f"fd {pid}", lambda: os.readlink(f"/proc/{pid}/fd/0"))
    attempt(f"getfd {pid}", lambda: pidfd_getfd(pid))
