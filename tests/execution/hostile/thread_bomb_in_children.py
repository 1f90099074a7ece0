# Children that start threads until none can be had, and wait for ever.
# ends: timeout, out_of_memory; landlock: timeout, out_of_memory, killed
for _ in range(4):
    if os.fork() == 0:
        try:
            while True:
                threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        except (RuntimeError, MemoryError):
            time.sleep(60)
        os._exit(0)
time.sleep(60)
