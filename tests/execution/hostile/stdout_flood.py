# Prints for ever.
# ends: output_limit
while True:
    print("x" * 1000)
