# Prints what would clear, rename and fill a terminal.
# ends: ok
os.write(1, b"\x1b[2J\x1b]0;owned\x07\x1b[99999999b" + b"\x1b[8m" * 1000 + b"\r" * 1000)
