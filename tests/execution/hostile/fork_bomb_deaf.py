# Forks for ever; all of them ignore every signal that can be ignored.
# ends: timeout, out_of_memory
import signal
for number in signal.valid_signals():
    try:
        signal.signal(number, signal.SIG_IGN)
    except OSError:
        pass
while True:
    try:
        os.fork()
    except OSError:
        pass
