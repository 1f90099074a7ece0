"""The code that runs inside the sandbox: the warm parent of programs, which imports the usual packages once and then
forks one child per program.

This folder is *executed*, not imported: its `__main__.py` is started by path, as pid 1 of a bubblewrap container (in
the other tiers as a plain process). There the folder lies alone, so its modules import only each other, relatively,
and the standard library. For each program there are two processes:

    warm parent ──fork──▶ init: pid 1 of new user, mount, pid, ──fork──▶ the program: no capabilities, no new
    (parent.py)           ipc, net and uts namespaces; mounts,           privileges, seccomp, rlimits
                          timeout, Δt, submission.csv, end           (run_program.py)
                          of all others (init.py), memory
                          and disk (usage.py)

Without namespaces (see `sandbox/tier.py`) the init is a subreaper: processes that a program leaves behind become its
children.

Protocol. Control socket (SEQPACKET), caller → warm parent: one message per program, carrying the init's end of a job
socket. Job socket (STREAM), caller → init: `<uint32 length><JSON job>` with the file descriptors of stdout, stderr,
the control groups and their share of the cores, later one byte to end the program early; init → caller: a length of 0
when the program starts, then `<uint32 length><JSON report><submission bytes>`."""
