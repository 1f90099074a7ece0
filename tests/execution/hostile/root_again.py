# Becomes root: by system call, and by the programs that are there for it.
# ends: ok
attempt("setuid", lambda: os.setuid(0))
attempt("setgid", lambda: os.setgid(0))
attempt("setgroups", lambda: os.setgroups([0]))
for command in (["su", "-c", "id -u"], ["sudo", "-n", "id", "-u"], ["unshare", "-r", "id", "-u"], ["newgrp"], ["passwd", "-S"]):
    attempt(command[0], lambda: subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL))
