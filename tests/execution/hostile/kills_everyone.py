# kill(-1): everything that it may signal. Itself is spared.
# ends: ok
with suppress(OSError):
    os.kill(-1, 9)
