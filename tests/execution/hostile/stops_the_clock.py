# Bends the time by which it is measured.
# ends: ok
def change(path, text):
    os.write(os.open(path, os.O_WRONLY), text)
attempt("offsets", lambda: change("/proc/self/timens_offsets", b"monotonic 1000 0"))
attempt("a namespace", lambda: libc.unshare(0x80) == 0 or 1 / 0)
attempt("freezer", lambda: change("/sys/fs/cgroup/freezer/freezer.state", b"FROZEN"))
attempt("freezer of version 2", lambda: change("/sys/fs/cgroup/cgroup.freeze", b"1"))
