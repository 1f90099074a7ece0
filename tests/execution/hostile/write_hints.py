# A hint how long the data will live stays with them: a note to later programs.
# ends: ok
for name in ("input/train.csv", "input"):
    fd = os.open(name, os.O_RDONLY)
    for command in (1036, 1038):
        attempt(f"{name} {command}", lambda: fcntl.fcntl(fd, command, struct.pack("Q", 3)))
        hint = ctypes.c_uint64(4)
        attempt("the call itself", lambda: libc.syscall(72, fd, ctypes.c_ulong(command | 1 << 32), ctypes.byref(hint)) == 0 or 1 / 0)
    try:
        kept = struct.unpack("Q", fcntl.fcntl(fd, 1035, bytes(8)))[0]
    except OSError:
        continue
    if kept:
        print("LOOT", kept)
