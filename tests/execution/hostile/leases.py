# A lease on the data makes every other program wait that opens them.
# ends: ok
file = open("input/train.csv")
for command in (1024, 1024 | 1 << 32):
    for kind in (0, 1):
        attempt(f"lease {command} {kind}", lambda: libc.fcntl(file.fileno(), ctypes.c_ulong(command), kind) == 0 or 1 / 0)
        attempt("the call itself", lambda: libc.syscall(72, file.fileno(), ctypes.c_ulong(command), kind) == 0 or 1 / 0)
folder = os.open("input", os.O_RDONLY)
attempt("notify", lambda: libc.fcntl(folder, 1026, 0x80000001) == 0 or 1 / 0)
