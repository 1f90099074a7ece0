# A daemon goes on writing to the submission after the program's end.
# ends: ok
# submission: honest
with open("submission.csv", "w") as file:
    file.write("honest\n")
if os.fork() == 0:
    os.setsid()
    for _ in range(1000):
        time.sleep(0.001)
    while True:
        with open("submission.csv", "w") as file:
            file.write("changed\n")
