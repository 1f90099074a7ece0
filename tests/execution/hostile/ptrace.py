# Traces its parent, pid 1 and the caller.
# ends: ok
for pid in (1, os.getppid(), @caller@):
    attempt(f"attach {pid}", lambda: checked(libc.ptrace(16, pid, 0, 0)))
    attempt(f"seize {pid}", lambda: checked(libc.ptrace(0x4206, pid, 0, 0)))
