# Files that are deleted and closed while a page of them is mapped still take room, and nobody can know how much.
# ends: error; landlock: output_limit
libc.mmap.argtypes = [ctypes.c_void_p] + [ctypes.c_long] * 5
for _ in range(10):
    fd = os.open("x", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"x" * (30 << 20))
    libc.mmap(None, 4096, 3, 1, fd, 0)
    os.close(fd)
    os.unlink("x")
time.sleep(3)
print("LOOT")
