# Executes a file that lies nowhere, and holds memory that belongs to no process.
# ends: ok
attempt("memfd_create", lambda: os.memfd_create("x"))
attempt("memfd_secret", lambda: libc.syscall(447, 0) >= 0 or 1 / 0)
attempt("shmget", lambda: libc.shmget(0, 1 << 30, 0o1600) >= 0 or 1 / 0)
