# Changes settings of the kernel.
# ends: ok
for path in (
    "/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sys/user/max_user_namespaces",
    "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/tasks",
    "/proc/self/uid_map", "/proc/self/setgroups",
):
    attempt(path, lambda: os.write(os.open(path, os.O_WRONLY), b"0"))
