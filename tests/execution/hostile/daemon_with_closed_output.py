# A daemon that has closed all it inherited, and goes on after the program's end.
# ends: ok
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 1024)
        while True:
            time.sleep(0.01)
    os._exit(0)
os.wait()
os._exit(0)
