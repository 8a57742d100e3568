"""Proxies between the brokers of a cluster, one in front of each peer listener; they cut, hold, half-cut and delay, all that comes or only what comes from named brokers.

Who speaks is read from the first request of a connection, the hello. All proxies of a process run on one thread.
"""
import asyncio
import socket
import struct
import threading

PIECE = 65536


def speaker(first):
    """The node id in a hello request; None: this is something else."""
    try:
        name = struct.unpack_from(">h", first, 12)[0]
        return struct.unpack_from(">i", first, 14 + max(name, 0) + 1)[0]       # behind the client's name come the tags of the header
    except struct.error:
        return None


class Loop:
    """The thread of all proxies."""
    one = None

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    @classmethod
    def run(cls, coroutine):
        if cls.one is None:
            cls.one = cls()
        return asyncio.run_coroutine_threadsafe(coroutine, cls.one.loop).result(20)


class Rule:
    """What happens to connections; of: the brokers from which they come, None for all."""

    def __init__(self, of=None, cut=False, to=False, back=False, delay_s=0.0):
        self.of, self.cut, self.held, self.delay_s = None if of is None else set(of), cut, {"to": to, "back": back}, delay_s

    def means(self, pair):
        return self.of is None or pair.source in self.of


class Pair:
    """A connection and its other half. heard: what came over it while the proxy listened."""

    def __init__(self, source, writers):
        self.source, self.writers, self.heard = source, writers, bytearray()

    def abort(self):
        for writer in self.writers:
            writer.transport.abort()


class Proxy:
    """Listens on a port and passes on to another. cut(): what there is ends and new connections end at once; hold(): connections stay and nothing passes, in one or both directions;
    slow(): every piece waits. heal() undoes all of them. listen(): connections made from now on are kept in self.heard, with what came over them. `of` names the brokers to whose connections it applies (default: to all)."""

    def __init__(self, to_port):
        self.to_port, self.rules, self.pairs, self.heard = to_port, [], set(), None
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.server = Loop.run(self._listen(listener))

    def cut(self, of=None):
        Loop.run(self._add(Rule(of, cut=True)))

    def hold(self, to=True, back=True, of=None):
        Loop.run(self._add(Rule(of, to=to, back=back)))

    def slow(self, delay_s, of=None):
        Loop.run(self._add(Rule(of, delay_s=delay_s)))

    def listen(self):
        self.heard = []

    def heal(self):
        Loop.run(self._set([]))

    def close(self):
        Loop.run(self._close())

    # ---- on the thread of the loop

    async def _listen(self, listener):
        self.changed = asyncio.Condition()
        return await asyncio.start_server(self._connected, sock=listener)

    async def _add(self, rule):
        for pair in [p for p in self.pairs if rule.cut and rule.means(p)]:
            pair.abort()
        await self._set([*self.rules, rule])

    async def _set(self, rules):
        async with self.changed:
            self.rules = rules
            self.changed.notify_all()

    async def _close(self):
        self.server.close()
        for pair in self.pairs:
            pair.abort()

    def _held(self, pair, way):
        return any(rule.held[way] and rule.means(pair) for rule in self.rules)

    async def _connected(self, reader, writer):
        pair, onward = Pair(None, [writer]), None
        self.pairs.add(pair)
        try:
            first = await reader.read(PIECE)
            pair.source = speaker(first)
            if self.heard is not None:
                self.heard.append(pair)
            if not first or any(rule.cut and rule.means(pair) for rule in self.rules):
                return
            from_server, onward = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self.to_port), 5)
            pair.writers.append(onward)
            ways = [asyncio.ensure_future(self._pass(pair, reader, onward, "to", first)), asyncio.ensure_future(self._pass(pair, from_server, writer, "back", b""))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
        except (OSError, asyncio.TimeoutError):
            pass
        finally:
            self.pairs.discard(pair)
            pair.abort()

    async def _pass(self, pair, reader, writer, way, data):
        try:
            while True:
                if data:
                    if way == "to" and self.heard is not None:
                        pair.heard += data
                    async with self.changed:
                        await self.changed.wait_for(lambda: not self._held(pair, way))
                    wait_s = max((rule.delay_s for rule in self.rules if rule.means(pair)), default=0)
                    if wait_s:
                        await asyncio.sleep(wait_s)
                    writer.write(data)
                    await writer.drain()
                data = await reader.read(PIECE)
                if not data:
                    return
        except OSError:
            return
