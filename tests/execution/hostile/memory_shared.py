# Anonymous memory that processes may share belongs to none of them once it is unmapped but for a page.
# ends: out_of_memory, error
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p] + [ctypes.c_long] * 5
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_long]
size = 64 << 20
for _ in range(32):
    start = libc.mmap(None, size, 3, 0x21, -1, 0)
    assert start != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
    ctypes.memset(start, 1, size)
    libc.munmap(start + 4096, size - 4096)
time.sleep(3)
print("LOOT")
