# Reads the memory of its parent, of pid 1 and of the caller, from /proc and by system call.
# ends: ok
buffer = ctypes.create_string_buffer(64)
local = remote = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 64)
for pid in (1, os.getppid(), @caller@):
    attempt(f"mem {pid}", lambda: open(f"/proc/{pid}/mem", "rb").read(1))
    attempt(f"maps {pid}", lambda: open(f"/proc/{pid}/maps").read() or 1 / 0)
    attempt(f"readv {pid}", lambda: checked(libc.process_vm_readv(pid, local, 1, remote, 1, 0)))
