# Reads the memory of its parent, of pid 1 and of the caller, from /proc and by system call.
# ends: ok
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
class iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(64)
local, remote = iovec(ctypes.addressof(buffer), 64), iovec(ctypes.addressof(buffer), 64)
def readv(pid):
    if libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) < 0:
        raise OSError(ctypes.get_errno(), "process_vm_readv")
for pid in (1, os.getppid(), @caller@):
    attempt(f"mem {pid}", lambda: open(f"/proc/{pid}/mem", "rb").read(1))
    attempt(f"maps {pid}", lambda: open(f"/proc/{pid}/maps").read() or 1 / 0)
    attempt(f"readv {pid}", lambda: readv(pid))
