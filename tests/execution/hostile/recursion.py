# Overflows the stack of the interpreter, then that of the machine.
# ends: error, killed, out_of_memory
sys.setrecursionlimit(10**9)
def deeper(f):
    return max([f], key=deeper)
deeper(deeper)
