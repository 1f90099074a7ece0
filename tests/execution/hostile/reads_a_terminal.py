# Looks for what `leaves_a_terminal` left.
# ends: ok
time.sleep(1)
attempt("terminals", lambda: [name for name in os.listdir("/dev/pts") if name != "ptmx"] or 1 / 0)
attempt("mode", lambda: os.stat("/dev/pts/ptmx").st_mode & 0o777 == 0o600 or 1 / 0)
