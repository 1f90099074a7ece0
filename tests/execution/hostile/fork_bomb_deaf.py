# Forks for ever; all of them ignore every signal that can be ignored.
# ends: timeout, out_of_memory
for number in signal.valid_signals():
    with suppress(OSError):
        signal.signal(number, signal.SIG_IGN)
while True:
    with suppress(OSError):
        os.fork()
