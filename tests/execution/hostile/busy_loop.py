# Computes for ever.
# ends: timeout
while True:
    pass
