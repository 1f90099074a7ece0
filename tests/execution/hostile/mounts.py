# Mounts, remounts, unmounts, changes its root.
# ends: ok
call = lambda name, *args: checked(getattr(libc, name)(*args))
attempt("tmpfs", lambda: call("mount", b"none", os.getcwd().encode(), b"tmpfs", 0, None))
attempt("writable input", lambda: call("mount", b"none", b"input", None, 0x20 | 0x1000, None))
attempt("writable root", lambda: call("mount", b"none", b"/", None, 0x20 | 0x1000, None))
attempt("umount", lambda: call("umount2", b"input", 2))
attempt("chroot", lambda: os.chroot("."))
attempt("pivot_root", lambda: call("syscall", 155, b".", b"."))
attempt("fsopen", lambda: call("syscall", 430, b"tmpfs", 0))
attempt("open_tree", lambda: call("syscall", 428, -100, b"/", 1))
