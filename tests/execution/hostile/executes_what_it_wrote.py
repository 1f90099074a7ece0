# Programs that it has written itself have no more rights than it: not by a set-user-id bit, not in memory without a name.
# ends: ok
shutil.copy("/usr/bin/id", "id")
with suppress(OSError):
    os.chmod("id", 0o6755)
attempt("root", lambda: 1 / 0 if subprocess.run(["./id", "-u"], capture_output=True, text=True).stdout.strip() != "0" else "root")
attempt("memfd", lambda: os.memfd_create("x"))
attempt("secret memory", lambda: libc.syscall(447, 0) >= 0 or 1 / 0)
