# kill(-1): everything that it may signal. Itself is spared.
# ends: ok
try:
    os.kill(-1, 9)
except OSError:
    pass
