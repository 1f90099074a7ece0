# Structures of the kernel that grow without a limit, or with one for all of the machine: queues, semaphores, rules and filters
# of sandboxes, filters of sockets, rings, huge pages.
# ends: ok
import fcntl, mmap, struct
call = lambda *args: checked(libc.syscall(*args))
attempt("semaphores", lambda: call(64, 0, 32000, 0o600))
attempt("queue", lambda: call(68, 0, 0o600))
attempt("POSIX queue", lambda: call(240, b"queue", os.O_RDWR | os.O_CREAT, 0o600, None))
attempt("rules", lambda: call(444, struct.pack("=QQQ", 0, 3, 0), ctypes.c_size_t(24), 0))
code = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000))
program = struct.pack("@HP", 1, ctypes.addressof(code))
attempt("filter", lambda: call(317, 1, 0, program))
attempt("filter by prctl", lambda: call(157, ctypes.c_ulong(22), ctypes.c_ulong(2), program, 0, 0))
attempt("32 bits are compared", lambda: call(157, ctypes.c_ulong(1 << 32 | 22), ctypes.c_ulong(2), program, 0, 0))
attempt("filter of a socket", lambda: socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, 26, program))
attempt("datagrams", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt("a receiver of datagrams", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt("ring", lambda: call(206, 65536, ctypes.byref(ctypes.c_ulong(0))))
attempt("huge pages", lambda: mmap.mmap(-1, 1 << 21, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000))
attempt("core scheduling", lambda: call(157, 62, 1, 0, 0, 0))
lock = struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 1, 0)
attempt("locks that are nobody's", lambda: fcntl.fcntl(open("input/train.csv"), 37, lock))
attempt("locks that outlive their owner", lambda: call(56, 0x400 | 17, 0, 0, 0, 0))
