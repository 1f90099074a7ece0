# Ignores all signals that can be ignored, and runs on.
# ends: timeout
import signal, time
for number in signal.valid_signals():
    try:
        signal.signal(number, signal.SIG_IGN)
    except OSError:
        pass
while True:
    time.sleep(0.1)
