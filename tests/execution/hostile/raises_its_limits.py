# Raises its limits, and takes itself out of the kernel's choice of victims.
# ends: ok
for name in ("AS", "NPROC", "FSIZE", "NOFILE", "CORE", "MEMLOCK"):
    kind = getattr(resource, f"RLIMIT_{name}")
    attempt(name, lambda: resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)))
    attempt(f"{name} of the parent", lambda: resource.prlimit(os.getppid(), kind, (0, 0)))
attempt("oom", lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-1000"))
before = os.getpriority(os.PRIO_PROCESS, 0)
attempt("nice", lambda: (os.nice(-10), os.getpriority(os.PRIO_PROCESS, 0) < before or 1 / 0))
