# Traces its parent, pid 1 and the caller.
# ends: ok
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def trace(request, pid):
    if libc.ptrace(request, pid, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")
for pid in (1, os.getppid(), @caller@):
    attempt(f"attach {pid}", lambda: trace(16, pid))
    attempt(f"seize {pid}", lambda: trace(0x4206, pid))
