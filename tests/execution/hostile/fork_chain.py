# Each process forks another one and ends: none lives long enough to be looked at.
# ends: ok
while os.fork() == 0:
    pass
