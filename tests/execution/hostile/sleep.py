# Sleeps.
# ends: timeout
time.sleep(1000)
