# Prints one byte at a time, for ever, from several processes.
# ends: timeout
for _ in range(3):
    os.fork()
while True:
    os.write(1, b"x")
