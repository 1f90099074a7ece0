# Threads that outlive the main one, and a hook that never ends.
# ends: timeout
import atexit
atexit.register(time.sleep, 1000)
threading.Thread(target=time.sleep, args=(1000,)).start()
