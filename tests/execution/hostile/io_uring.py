# Makes a ring, through which system calls would pass the filter.
# ends: ok
attempt("io_uring", lambda: libc.syscall(425, 8, (ctypes.c_uint32 * 30)()) >= 0 or 1 / 0)
