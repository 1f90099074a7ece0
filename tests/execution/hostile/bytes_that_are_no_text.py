# Prints bytes that are no UTF-8, NULs, and half a character.
# ends: ok
os.write(1, b"\xff\xfe\x00\x80abc\x00" + "\u00e9".encode()[:1])
os.write(2, bytes(range(256)))
