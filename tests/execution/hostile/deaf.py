# Ignores all signals that can be ignored, and runs on.
# ends: timeout
for number in signal.valid_signals():
    with suppress(OSError):
        signal.signal(number, signal.SIG_IGN)
while True:
    time.sleep(0.1)
