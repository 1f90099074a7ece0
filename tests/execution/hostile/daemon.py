# A daemon by setsid and double fork, which keeps stdout open.
# ends: ok
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
