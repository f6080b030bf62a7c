# python multiprocessing: pools by fork, spawn and forkserver; a lock, a queue, a manager
import multiprocessing as mp


def square(n):
    return n * n


def put(queue, lock, value):
    with lock:
        queue.put(value)


if __name__ == "__main__":
    for method in "fork", "spawn", "forkserver":
        ctx = mp.get_context(method)
        with ctx.Pool(2) as pool:
            assert pool.map(square, range(5)) == [0, 1, 4, 9, 16], method
    queue, lock = mp.Queue(), mp.Lock()
    children = [mp.Process(target=put, args=(queue, lock, n)) for n in range(3)]
    for child in children:
        child.start()
    assert sorted(queue.get() for _ in children) == [0, 1, 2]
    for child in children:
        child.join()
        assert child.exitcode == 0
    with mp.Manager() as manager:
        shared = manager.dict(a=1)
        assert shared["a"] == 1
