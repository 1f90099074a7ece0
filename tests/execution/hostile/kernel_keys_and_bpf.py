# Other ways into the kernel that no solution needs.
# ends: ok
numbers = {"bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "keyctl": 250, "add_key": 248, "kexec_load": 246,
           "init_module": 175, "finit_module": 313, "fanotify_init": 300, "open_by_handle_at": 304, "personality": 135}
for name, number in numbers.items():
    attempt(name, lambda: libc.syscall(number, 0x0008000 if name == "personality" else 0, 0, 0, 0, 0) >= 0 or 1 / 0)
