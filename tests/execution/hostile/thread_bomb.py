# Starts threads until none can be had.
# ends: error, out_of_memory, timeout
while True:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
