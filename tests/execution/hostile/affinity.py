# Leaves its cores, and changes the scheduling of others.
# ends: ok
attempt("own cores", lambda: os.sched_setaffinity(0, range(os.cpu_count())))
attempt("cores of the parent", lambda: os.sched_setaffinity(os.getppid(), [0]))
attempt("real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
attempt("priority of the parent", lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19))
