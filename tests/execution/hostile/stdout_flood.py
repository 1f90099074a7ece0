# Prints as fast as it can, and ends by itself.
# ends: ok
import time
end = time.monotonic() + 2
while time.monotonic() < end:
    print("x" * 1000)
