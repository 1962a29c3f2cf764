"""Who is not let in, and what they are told: another version, a wrong token, what is no message, another user."""

import asyncio
import contextlib
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from tests.support.carriers import direct_of, sockets_of
from tests.support.channels import opened, proxied, under_way
from tests.support.loops import run, until
from tests.support.requests import cell_request
from tests.support.workers import VERSION
from wool_jupyter.discovery import root as roots
from wool_jupyter.dispatch import channels, direct_link, grpc_link
from wool_jupyter.dispatch.connection import WorkerConnection
from wool_jupyter.errors import (
    MessageTooLarge,
    NotReached,
    NoUsableRoot,
    NoWorkersAvailable,
    WoolError,
    WorkerDied,
    WorkerRefused,
)
from wool_jupyter.notebook.runtime import Runtime
from wool_jupyter.records import ChannelOptions, WorkerMetadata
from wool_jupyter.settings import PoolSettings
from wool_jupyter.wire import buffers, frames
from wool_jupyter.wire.credentials import TOKEN_KEY
from wool_jupyter.wire.protocol import METHOD, PROTOCOL, PROTOCOL_KEY, SERVICE, VERSION_KEY, package_version
from wool_jupyter.wire.transport import grpc, server_options
from wool_jupyter.worker.service import WorkerService

TOKEN = "0123456789abcdef"
LET_IN = ((PROTOCOL_KEY, PROTOCOL),)
GOOD = {TOKEN_KEY: TOKEN, PROTOCOL_KEY: PROTOCOL, VERSION_KEY: package_version()}
TOO_LARGE = b"x" * (frames.FRAME_MAX_BYTES + 1)


@pytest.fixture
def short(carrier):
    """A directory whose path is short enough for a socket, and which every user may enter."""
    with sockets_of(carrier) as directory:
        directory.parent.chmod(0o755)
        yield directory


@pytest.fixture
def decoded(monkeypatch):
    """Each message that reaches a decoder of requests."""
    seen = []
    decode = frames.decode_requests
    monkeypatch.setattr(frames, "decode_requests", lambda data: [seen.append(data), decode(data)][1])
    return seen


async def once(body):
    yield body, True


async def echo(body):
    answer = yield body, False
    while answer is not None:
        answer = yield answer, False


async def loads(body):
    pickle.loads(body)
    yield b"loaded", True


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def metadata_of(directory, number=1):
    return WorkerMetadata(UUID(int=number), f"unix:{directory}/{number}", 1, VERSION)


@contextlib.asynccontextmanager
async def serving(directory, number=1, options=None, **routines):
    known = {"once": once, "echo": echo, "loads": loads, **routines}
    service = WorkerService(known, token=TOKEN, options=options or ChannelOptions())
    metadata = metadata_of(directory, number)
    await service.start(metadata.address, direct=direct_of(metadata.address))
    try:
        yield metadata
    finally:
        await service.close()


@contextlib.asynccontextmanager
async def saying(directory, code, details, number=1, *, let_in=False):
    """A server that ends each stream with that status: at once, or when the client that it let in has said something."""

    async def refuses(_requests, context):
        if let_in:
            await context.send_initial_metadata(LET_IN)
            await context.read()
        await context.abort(code, details)

    server = grpc.aio.server(options=server_options(ChannelOptions()))
    handler = grpc.stream_stream_rpc_method_handler(refuses)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])
    metadata = metadata_of(directory, number)
    server.add_insecure_port(metadata.address)
    await server.start()
    try:
        yield metadata
    finally:
        await server.stop(grace=None)


async def said_to(metadata, given, *messages):
    """The status of a stream with that metadata that says that."""
    async with grpc.aio.insecure_channel(metadata.address, options=[("grpc.max_send_message_length", -1)]) as raw:
        stream = raw.stream_stream(f"/{SERVICE}/{METHOD}")(metadata=tuple(given.items()))
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            for message in messages:
                await stream.write(message)
        with contextlib.suppress(grpc.aio.AioRpcError):
            while await stream.read() is not grpc.aio.EOF:
                pass
        return await stream.code(), await stream.details()


def asking(routine, body):
    return frames.join([frames.encode(frames.Task(1, routine, body)), frames.encode(frames.Next(1))])


# Version and token.


def without(key):
    return {name: value for name, value in GOOD.items() if name != key}


UNAUTHENTICATED = [
    pytest.param(GOOD | {TOKEN_KEY: "wrong"}, id="wrong"),
    pytest.param(GOOD | {TOKEN_KEY: TOKEN[:-1]}, id="short"),
    pytest.param(GOOD | {TOKEN_KEY: ""}, id="empty"),
    pytest.param(without(TOKEN_KEY), id="missing"),
    pytest.param({PROTOCOL_KEY: "0"}, id="missing, of another version"),
]
OTHER_VERSION = [
    pytest.param(GOOD | {PROTOCOL_KEY: "0"}, id="older"),
    pytest.param(GOOD | {PROTOCOL_KEY: PROTOCOL + "0"}, id="newer"),
    pytest.param(GOOD | {PROTOCOL_KEY: "x"}, id="no number"),
    pytest.param(without(PROTOCOL_KEY), id="missing"),
    pytest.param(without(VERSION_KEY), id="no version"),
    pytest.param(GOOD | {VERSION_KEY: "x"}, id="what is no version"),
    pytest.param(GOOD | {VERSION_KEY: "99.0.0"}, id="a newer version"),
]


@pytest.mark.parametrize("given", [*UNAUTHENTICATED, *OTHER_VERSION])
def test_who_is_refused_has_nothing_decoded_and_nothing_unpickled(short, decoded, given):
    body = pickle.dumps(Bomb(short / "made"))

    async def main():
        async with serving(short) as metadata:
            await said_to(metadata, given, asking("loads", body))
            code, details = await said_to(metadata, given)
            assert (decoded, (short / "made").exists()) == ([], False)
            if given.get(TOKEN_KEY) == TOKEN:
                assert code is grpc.StatusCode.FAILED_PRECONDITION
            else:
                assert (code, details) == (grpc.StatusCode.UNAUTHENTICATED, "wrong token")  # no word of a version
            async with opened(metadata, TOKEN) as channel:  # the same message does it, from who is let in
                assert await channel.call(metadata, "loads", body).step() == b"loaded"
            assert (len(decoded), (short / "made").exists()) == (1, True)

    run(main())


@pytest.mark.parametrize("protocol", ["77", PROTOCOL], ids=["another protocol", "another version alone"])
def test_a_worker_of_another_protocol_or_version_names_both(short, monkeypatch, protocol):
    async def main():
        async with serving(short) as metadata:
            for link in (grpc_link, direct_link):
                monkeypatch.setattr(link, "PROTOCOL", protocol)
                monkeypatch.setattr(link, "package_version", lambda: "8.8.8")
            with pytest.raises(WorkerRefused) as caught:
                async with opened(metadata, TOKEN):
                    pass
            return str(caught.value)

    words = run(main())
    assert words.startswith(f"the worker speaks protocol {PROTOCOL} (wool_jupyter ")
    assert words.endswith(f"the client {protocol} (wool_jupyter 8.8.8): start both with the same version")


def test_a_wrong_token_is_a_refusal_in_words(short):
    async def main():
        async with serving(short) as metadata:
            with pytest.raises(WorkerRefused, match="does not accept this process's token"):
                async with opened(metadata, "wrong"):
                    pass

    run(main())


def test_a_worker_that_refuses_for_good_is_evicted_and_who_finds_no_other_hears_the_reason(short):
    async def main():
        refusing = saying(short, grpc.StatusCode.FAILED_PRECONDITION, "another version", 1)
        async with refusing as one, serving(short, 2) as other, proxied(one, other, token=TOKEN) as proxy:
            call = await proxy.dispatch("once", b"x")
            assert (call.worker, await call.step()) == (other, b"x")
            assert list(proxy.workers.workers) == [other.uid]
            for only in (one.uid, None):
                proxy.evict(other.uid)
                assert proxy.readmit(one.uid)
                with pytest.raises(NoWorkersAvailable, match="another version") as caught:
                    await proxy.dispatch("once", b"", only=only)
                assert {uid: type(error) for uid, error in caught.value.failures.items()} == {one.uid: WorkerRefused}
                assert proxy.workers.workers == {}
            with pytest.raises(NoWorkersAvailable) as caught:
                await proxy.dispatch("once", b"")
            assert caught.value.failures == {}

    run(main())


@pytest.mark.parametrize("wrong", ["token", "protocol"])
def test_a_refusal_of_every_worker_is_what_a_dispatch_says(short, monkeypatch, wrong):
    async def main():
        async with serving(short, 1) as one, serving(short, 2) as other:
            if wrong == "protocol":
                for link in (grpc_link, direct_link):
                    monkeypatch.setattr(link, "PROTOCOL", "77")
            words = {"token": "does not accept this process's token", "protocol": "start both with the same version"}[
                wrong
            ]
            async with proxied(one, other, token="wrong" if wrong == "token" else TOKEN) as proxy:
                with pytest.raises(NoWorkersAvailable, match=words) as caught:
                    await proxy.dispatch("once", b"")
                assert [*map(type, caught.value.failures.values())] == [WorkerRefused] * 2
                assert str(caught.value).count(words) == 1
                assert proxy.workers.workers == {}

    run(main())


def test_a_client_sends_nothing_before_it_is_let_in(short):
    """A write that the refusal overtakes would hide its reason."""

    async def main():
        heard, done = [], asyncio.Event()

        async def hesitates(_requests, context):
            reading = asyncio.ensure_future(context.read())
            await asyncio.wait({reading}, timeout=0.2)
            heard.append(reading.done())
            await context.send_initial_metadata(LET_IN)
            heard.append(frames.decode_requests(await reading))
            done.set()

        server = grpc.aio.server(options=server_options(ChannelOptions()))
        handler = grpc.stream_stream_rpc_method_handler(hesitates)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])
        metadata = metadata_of(short)
        server.add_insecure_port(metadata.address)
        await server.start()
        opening = asyncio.create_task(WorkerConnection(metadata, token=TOKEN).dispatch("once", b"", begun=True))
        await done.wait()
        call = await opening
        call.close()
        await channels.of_this_loop().clear()
        await server.stop(grace=None)
        assert heard == [False, [frames.Task(call.number, "once", b""), frames.Next(call.number)]]

    run(main())


# What a stream's end means, in words.


@pytest.mark.parametrize(
    ("code", "begun", "not_begun", "words"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, WorkerRefused, WorkerRefused, "does not accept this process's token"),
        (grpc.StatusCode.UNIMPLEMENTED, WorkerRefused, WorkerRefused, "does not speak protocol"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, MessageTooLarge, NotReached, "larger than its receiver takes"),
        (grpc.StatusCode.UNAVAILABLE, WorkerDied, NotReached, "the connection to the worker broke"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, WorkerDied, NotReached, "the connection to the worker broke"),
        (grpc.StatusCode.INTERNAL, WorkerDied, NotReached, "the connection to the worker broke"),
        (grpc.StatusCode.UNKNOWN, WorkerDied, WorkerRefused, "the connection to the worker broke"),
        (grpc.StatusCode.CANCELLED, WorkerDied, NotReached, "the connection to the worker broke"),
    ],
)
def test_no_code_and_no_word_of_grpc_reaches_a_user(short, code, begun, not_begun, words):
    """At the door, to a call that waits for its Ack, and to one that may have begun."""

    def is_told(error, kind):
        assert type(error) is kind
        assert not any(each in str(error) for each in ("RST_STREAM", code.name, "StatusCode"))

    async def main():
        async with saying(short, code, "RST_STREAM Stack trace") as metadata:
            with pytest.raises(WoolError, match=words) as caught:
                async with opened(metadata, TOKEN):
                    pass
            is_told(caught.value, not_begun)
        inside = saying(short, code, "RST_STREAM Stack trace", 2, let_in=True)
        async with inside as metadata, opened(metadata, TOKEN) as channel:
            may_run = channel.call(metadata, "once", b"")
            waits = channel.call(metadata, "once", b"", begun=False)
            with pytest.raises(WoolError, match=words) as caught:
                await may_run.step()
            is_told(caught.value, begun)
            with pytest.raises(WoolError, match=words) as caught:
                await waits.accepted()
            is_told(caught.value, not_begun)
            assert channel.broken
            with pytest.raises(not_begun, match=words):
                channel.call(metadata, "once", b"")

    run(main())


def test_every_call_of_a_stream_gets_an_error_of_its_own(short):
    async def main():
        unavailable = saying(short, grpc.StatusCode.UNAVAILABLE, "gone", let_in=True)
        async with unavailable as metadata, opened(metadata, TOKEN) as channel:
            calls = [channel.call(metadata, "once", b"") for _ in range(3)]
            outcomes = await asyncio.gather(*(call.step() for call in calls), return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [WorkerDied] * 3
            assert len(set(map(id, outcomes))) == 3

    run(main())


# What is no message.


def test_what_is_no_message_ends_that_stream_alone_and_is_named(short, capfd):
    async def main():
        begun = asyncio.Event()

        async def never(body):
            begun.set()
            await asyncio.get_running_loop().create_future()
            yield b"", True

        serves = serving(short, never=never)
        async with serves as metadata, opened(metadata, TOKEN) as channel, opened(metadata, TOKEN) as other:
            call, others = channel.call(metadata, "never", b""), other.call(metadata, "echo", b"y")
            assert await others.step() == b"y"
            await begun.wait()
            await channel._link.write(b"not a message")
            with pytest.raises(WorkerRefused, match=r"the worker can't read a message of the client: \w+"):
                await call.step()
            assert await others.step(b"still here") == b"still here"
            with pytest.raises(WorkerRefused):
                channel.call(metadata, "once", b"")

    run(main())
    assert "Traceback" not in capfd.readouterr().err


def test_the_frames_before_what_is_no_frame_are_not_begun(short):
    begun = []

    async def counted(body):
        begun.append(body)
        yield body, True

    async def main():
        async with serving(short, counted=counted) as metadata:
            good = [frames.encode(frames.Task(1, "counted", b"")), frames.encode(frames.Next(1))]
            code, _ = await said_to(metadata, GOOD, frames.join([*good, frames.encode(frames.Ack(1))]))
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert begun == []
            async with opened(metadata, TOKEN) as channel:
                assert await channel.call(metadata, "counted", b"x").step() == b"x"
            assert begun == [b"x"]

    run(main())


def test_a_worker_that_sends_no_message_is_named_too(short, capfd):
    async def main():
        async def babbles(_requests, context):
            await context.send_initial_metadata(LET_IN)
            await context.read()
            await context.write(b"not a message")
            await asyncio.get_running_loop().create_future()

        server = grpc.aio.server(options=server_options(ChannelOptions()))
        handler = grpc.stream_stream_rpc_method_handler(babbles)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])
        metadata = metadata_of(short)
        server.add_insecure_port(metadata.address)
        await server.start()
        async with opened(metadata, TOKEN) as channel:
            with pytest.raises(WorkerDied, match="sent a message that can't be read"):
                await channel.call(metadata, "once", b"").step()
        await server.stop(grace=None)

    run(main())
    assert "Traceback" not in capfd.readouterr().err


# What is too large.


def test_a_body_that_is_too_large_is_not_sent_and_the_other_calls_go_on(short):
    async def main():
        async with serving(short) as metadata, opened(metadata, TOKEN) as channel:
            call = channel.call(metadata, "echo", b"x")
            assert await call.step() == b"x"
            with pytest.raises(MessageTooLarge, match=r"16\.0 MiB is larger than 16 MiB"):
                channel.call(metadata, "once", TOO_LARGE)
            assert under_way(channel) == 1
            assert await call.step(b"on") == b"on"
            assert await channel.call(metadata, "once", b"new").step() == b"new"

    run(main())


def test_an_answer_that_is_too_large_is_not_given_and_its_call_waits_for_another(short):
    async def main():
        async with serving(short) as metadata, opened(metadata, TOKEN) as channel:
            call = channel.call(metadata, "echo", b"x")
            assert await call.step() == b"x"
            with pytest.raises(MessageTooLarge):
                await call.step(TOO_LARGE)
            assert await call.step(b"smaller") == b"smaller"

    run(main())


@pytest.mark.parametrize("last", [False, True])
def test_a_value_that_is_too_large_ends_its_call_alone(short, last):
    ended = []

    async def grows(body):
        try:
            yield TOO_LARGE, last
        finally:
            ended.append(body)

    async def main():
        async with serving(short, grows=grows) as metadata, opened(metadata, TOKEN) as channel:
            other = channel.call(metadata, "echo", b"x")
            assert await other.step() == b"x"
            call = channel.call(metadata, "grows", b"mine")
            with pytest.raises(MessageTooLarge, match=r"from the worker: .* larger than 16 MiB"):
                await call.step()
            assert (call.ended, under_way(channel)) == (True, 1)
            await until(lambda: ended == [b"mine"])  # the worker's side of the call has ended as well
            assert await other.step(b"on") == b"on"

    run(main())


@pytest.mark.parametrize("padding", [0, 10_000], ids=["failure", "refusal"])
def test_a_reason_that_is_too_large_ends_its_call_alone(short, padding):
    async def fails(body):
        raise LookupError("x" * 10_000)
        yield

    async def main():
        terse = ChannelOptions(max_send_bytes=10_000)
        async with serving(short, options=terse, fails=fails) as metadata, opened(metadata, TOKEN) as channel:
            with pytest.raises(MessageTooLarge, match="from the worker"):
                await channel.call(metadata, "fails" + "x" * padding, b"").step()
            assert await channel.call(metadata, "once", b"on").step() == b"on"

    run(main())


def test_a_message_over_the_limit_ends_its_stream_alone_and_is_not_decoded(short, decoded):
    async def main():
        async with serving(short) as metadata, opened(metadata, TOKEN) as channel:
            call = channel.call(metadata, "echo", b"x")
            assert await call.step() == b"x"
            decoded.clear()
            code, _ = await said_to(metadata, GOOD, asking("once", TOO_LARGE))
            # INTERNAL is what the sender makes of a write that the status overtakes.
            assert code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL)
            assert decoded == []
            assert await call.step(b"on") == b"on"

    run(main())


# Another user, and other files than ours.

OTHER_UID = 65534

# Tries each path as root, and then as another user: prints what came of it.
TRY = f"""
import errno, os, socket, stat, sys
def attempt(path):
    try:
        if stat.S_ISSOCK(kinds[path]):
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(path)
        else:
            os.close(os.open(path, os.O_RDONLY))
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"
kinds = {{path: os.stat(path).st_mode for path in sys.argv[1:]}}
print(*map(attempt, kinds))
os.setgroups([])
os.setegid({OTHER_UID})
os.seteuid({OTHER_UID})
print(*map(attempt, kinds))
"""


def everything_below(directory):
    return [directory, *sorted(directory.rglob("*"))]


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=["umask 0", "umask 22", "umask 77"])
def used_pool(request, short, monkeypatch):
    """The files of a pool, and of a call that printed, showed and returned something large: everything that exists by then."""
    monkeypatch.setenv(roots.OVERRIDE, str(short))
    before = os.umask(request.param)
    runtime = Runtime("kdoors")
    try:
        pool, _ = runtime.pool(PoolSettings(workers=1))
        with runtime.call_directories() as places:
            buffers.pack(b"", [memoryview(bytes(1 << 20))], places=places, name="request")
            source = "print(1); display({'text/plain': 'x' * (1 << 20)}, raw=True); large = bytes(1 << 20)"
            call = runtime.bridge.enter(pool.run("cell", cell_request(source, Path(places[0])))).result(30)
            while not call.ended:
                runtime.bridge.enter(call.step()).result(30)
            runtime.bridge.enter(call.close()).result(30)
            yield short / f"wool-{os.geteuid()}"
    finally:
        os.umask(before)
        runtime.end()


def test_everything_of_a_pool_is_its_users_alone(used_pool):
    found = everything_below(used_pool)
    links = {path for path in found if path.is_symlink()}  # a link's own mode says nothing
    assert all(path.resolve().parent == path.parent for path in links)
    modes = {path: path.lstat() for path in found if path not in links}
    kinds = {stat.S_IFMT(status.st_mode) for status in modes.values()}
    assert kinds == {stat.S_IFDIR, stat.S_IFREG, stat.S_IFSOCK}
    assert {path.name for path in found} >= {"token", "s", "calls", "stdout", "stderr", "order", "request", "reply"}
    for path, status in modes.items():
        assert stat.S_IMODE(status.st_mode) == (0o700 if path.is_dir() else 0o600), path
        assert status.st_uid == os.geteuid(), path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_reaches_no_socket_and_no_file(used_pool):
    open_to_all = used_pool.parent / "open"
    open_to_all.touch()
    open_to_all.chmod(0o644)
    paths = [*everything_below(used_pool), open_to_all]
    command = [sys.executable, "-I", "-S", "-c", TRY, *map(str, paths)]
    as_root, as_other = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert as_root.split() == ["ok"] * len(paths)
    assert as_other.split() == ["EACCES"] * (len(paths) - 1) + ["ok"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_socket_alone_lets_no_other_user_in(short):
    """Were its directory open to all: a second door behind the first."""

    async def main():
        before = os.umask(0)
        try:
            async with serving(short) as metadata:
                path = metadata.address.removeprefix("unix:")
                command = [sys.executable, "-I", "-S", "-c", TRY, path]
                child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
                said, _ = await child.communicate()
                assert said.split() == [b"ok", b"EACCES"]
        finally:
            os.umask(before)

    run(main())


@pytest.mark.parametrize("level", ["user", "layout"])
def test_a_link_at_any_level_of_the_root_is_refused(short, level):
    elsewhere = short / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    inner = short / "b"
    inner.mkdir()
    link = roots.root_under(inner, os.geteuid())
    link = link.parent if level == "user" else link
    link.parent.mkdir(mode=0o700, exist_ok=True)
    link.symlink_to(elsewhere)
    with pytest.raises(NoUsableRoot, match=r"Not a directory|symbolic links"):
        roots.choose_root({}, [inner])
    assert list(elsewhere.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("level", ["user", "layout"])
def test_a_root_that_belongs_to_another_user_is_refused(short, level):
    root = roots.choose_root({}, [short])
    os.chown(root.parent if level == "user" else root, OTHER_UID, -1)
    with pytest.raises(NoUsableRoot, match=f"belongs to user {OTHER_UID}"):
        roots.choose_root({}, [short])
