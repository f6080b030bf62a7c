# python asyncio: subprocesses, threads, a unix socket, a timeout, a signal
import asyncio
import os
import signal


async def main():
    child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    assert await child.communicate(b"through") == (b"through", None)
    assert await asyncio.to_thread(sum, range(5)) == 10

    async def echo(reader, writer):
        writer.write((await reader.readline()).upper())
        writer.close()

    async with await asyncio.start_unix_server(echo, "socket"):
        reader, writer = await asyncio.open_unix_connection("socket")
        writer.write(b"line\n")
        assert await reader.read() == b"LINE\n"
        writer.close()
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 0.01)
        raise AssertionError("no timeout")
    except asyncio.TimeoutError:
        pass
    got = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, got.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await got.wait()


asyncio.run(main())
