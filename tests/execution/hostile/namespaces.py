# Makes or enters namespaces, in which it would be root.
# ends: ok
call = lambda name, *args: checked(getattr(libc, name)(*args))
for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000, 0x80):
    attempt(f"unshare {flag:x}", lambda: call("unshare", 0x10000000 | flag))
attempt("clone", lambda: call("syscall", 56, 0x10000000 | 17, 0, 0, 0, 0))
attempt("clone3", lambda: call("syscall", 435, (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17), 88))
for name in ("net", "mnt", "pid", "user"):
    attempt(f"setns {name}", lambda: call("setns", os.open(f"/proc/1/ns/{name}", os.O_RDONLY), 0))
