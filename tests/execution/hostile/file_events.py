# Asks for the events of files, those of the labels among them. Its instances are counted for all of a user's programs.
# ends: ok
attempt("inotify_init", lambda: libc.syscall(253) >= 0 or 1 / 0)
attempt("inotify_init1", lambda: libc.inotify_init1(0) >= 0 or 1 / 0)
attempt("fanotify_init", lambda: libc.syscall(300, 0x200, 0) >= 0 or 1 / 0)
