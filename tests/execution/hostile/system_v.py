# Shared memory, queues and semaphores of System V belong to no folder and stay when a program ends. The last two may be had
# in a namespace of one's own.
# ends: ok
attempt("shmget", lambda: libc.shmget(0x7261, 4096, 0o1666) >= 0 or 1 / 0)
libc.msgget(0x7261, 0o1666)
libc.semget(0x7261, 4, 0o1666)
