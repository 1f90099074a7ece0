# Sleeps.
# ends: timeout
import time
time.sleep(1000)
