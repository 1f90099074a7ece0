# Writes to what /proc has of its parent and of the caller: memory, names, choice of victims, cores that are dumped.
# ends: ok
for pid in (1, os.getppid(), @caller@):
    for name in ("mem", "comm", "oom_score_adj", "coredump_filter", "clear_refs", "timerslack_ns", "uid_map", "autogroup", "sched"):
        attempt(f"{name} {pid}", lambda: os.write(os.open(f"/proc/{pid}/{name}", os.O_WRONLY), b"0"))
    for name in ("stack", "syscall", "auxv", "pagemap", "smaps", "io", "map_files", "fdinfo", "wchan"):
        attempt(f"{name} {pid}", lambda: os.listdir(f"/proc/{pid}/{name}") if name in ("map_files", "fdinfo")
                else open(f"/proc/{pid}/{name}", "rb").read(8).strip(b"0") or 1 / 0)
for name in ("uid_map", "gid_map", "setgroups", "timens_offsets", "attr/current", "fail-nth", "make-it-fail"):
    attempt(name, lambda: os.write(os.open(f"/proc/self/{name}", os.O_WRONLY), b"0 0 1"))
