# Who is connected to whom on this machine, and how many are.
# ends: ok
port, own = "%04X" % @port@, os.getpid()
folders = ["/proc/net", "/proc/self/net", f"/proc/{own}/net", f"/proc/self/task/{own}/net", "/proc/thread-self/net", f"/proc/{os.getppid()}/net"]
for folder in folders:
    attempt(f"{folder}/tcp", lambda: [line for line in open(f"{folder}/tcp") if port in line][0])
    attempt(f"{folder}/unix", lambda: [line for line in open(f"{folder}/unix") if "@unix@" in line or "@abstract@" in line][0])
    attempt(f"{folder}/sockstat", lambda: [line for line in open(f"{folder}/sockstat") if line.startswith("TCP: inuse") and "inuse 0" not in line][0])
    attempt(f"{folder}/route", lambda: open(f"{folder}/route").readlines()[1])
for name in ("maps", "stat", "status", "statm", "cgroup", "fd", "fdinfo", "limits"):  # what libraries read is there
    path = f"/proc/self/{name}"
    os.listdir(path) if os.path.isdir(path) else open(path).read()
