# Prints as fast as it can, and ends by itself.
# ends: ok
end = time.monotonic() + 1
while time.monotonic() < end:
    print("x" * 1000)
