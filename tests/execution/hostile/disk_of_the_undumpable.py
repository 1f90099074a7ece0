# Deleted files held by a process that has made itself undumpable: nobody can look into it. The kernel compares 32 bits of
# what is asked for.
# ends: error; landlock: output_limit
libc.syscall(157, *map(ctypes.c_ulong, (1 << 32 | 4, 0, 0, 0, 0)))
files = []
for _ in range(10):
    files.append(open("x", "wb", buffering=0))
    os.unlink("x")
    files[-1].write(b"x" * (30 << 20))
    assert os.fstat(files[-1].fileno()).st_size == 30 << 20
time.sleep(3)
print("LOOT")
