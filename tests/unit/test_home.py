import asyncio
import re
import stat
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.loops import run
from tests.support.pools import names_in
from tests.support.waiting import wait_until
from wool_jupyter import host
from wool_jupyter.discovery import claim
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.errors import StartFailed
from wool_jupyter.pool import home as home_module
from wool_jupyter.pool.home import Home, capacity_for
from wool_jupyter.wire import layout, segments, store
from wool_jupyter.wire.credentials import read_token, token_for


def modes(directory):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in Path(directory).iterdir()}


@asynccontextmanager
async def home_in(within, name="kabc", **options):
    home = await Home.enter(name, within=within, **options)
    try:
        yield home
    finally:
        await home.leave()


def test_a_home_is_private_and_holds_a_token(tmp_path):
    async def main():
        async with home_in(tmp_path) as home:
            assert home.directory.parent == tmp_path / "kabc"
            found = modes(home.directory)
            assert {name: found[name] for name in ("s", "calls", "token")} == {
                "s": 0o700,
                "calls": 0o700,
                "token": 0o600,
            }
            token = read_token(str(home.directory))
            assert re.fullmatch("[0-9a-f]{64}", token)
            assert token_for(f"unix:{home.directory}/s/12345678") == token
            assert home.is_intact
        assert names_in(tmp_path) == []

    run(main())


def test_each_home_has_a_generation_and_a_token_of_its_own(tmp_path):
    async def main():
        async with home_in(tmp_path) as home:
            first = home.directory.name, read_token(str(home.directory))
        async with home_in(tmp_path) as home:
            assert not {home.directory.name, read_token(str(home.directory))} & set(first)

    run(main())


def test_a_home_says_where_its_room_for_workers_ends(tmp_path):
    async def main():
        async with home_in(tmp_path, capacity=3) as home:
            home.check_room(3)
            with pytest.raises(StartFailed, match="at most 3 workers here, and 4 were asked for"):
                home.check_room(4)
        async with home_in(tmp_path) as home:
            home.check_room(capacity_for(host.usable_cpus()))

    run(main())


def test_there_is_room_for_workers_on_all_cpus():
    assert [capacity_for(cpus) for cpus in (2, 64, 200)] == [128, 128, 400]


def test_a_namespace_that_another_has_is_left_to_it(tmp_path):
    async def main():
        async with LocalDiscovery("kabc", root=tmp_path), home_in(tmp_path) as home:
            assert home.namespace != "kabc"
            assert claim.is_served(tmp_path / "kabc")
            assert claim.is_served(tmp_path / home.namespace)
        assert names_in(tmp_path) == []

    run(main())


def test_the_place_on_disk_is_owned_too_so_that_nobody_sweeps_it(tmp_path):
    async def main():
        async with home_in(tmp_path) as home:
            (spare,) = home.places[1:]
            claim.sweep_dead(spare.parents[1])
            assert sorted(modes(spare)) == ["calls", "d", "data", "idle", "s"]
        assert not spare.parent.exists()

    run(main())


@pytest.mark.parametrize("what", ["directory", "token"])
def test_files_that_are_gone_are_noticed(tmp_path, what):
    async def main():
        async with home_in(tmp_path) as home:
            if what == "token":
                (home.directory / "token").unlink()
            else:
                home.directory.rename(tmp_path / "elsewhere")
            assert not home.is_intact

    run(main())


def test_a_directory_that_cannot_be_written_is_a_start_that_failed(tmp_path):
    (tmp_path / "kabc").write_text("in the way")

    async def main():
        with pytest.raises(StartFailed, match=r"can't have its files: .*kabc"):
            await Home.enter("kabc", within=tmp_path)

    run(main())


@pytest.mark.parametrize("hold", [True, False])
def test_files_are_written_again_only_where_locks_live_as_long_as_mappings(tmp_path, monkeypatch, hold):
    monkeypatch.setattr(segments, "locks_hold", lambda _: hold)

    async def main():
        async with home_in(tmp_path) as home:
            for place in home.places:
                assert layout.data(place).is_dir()
                assert layout.idle(place).is_dir() is hold

    run(main())


def test_what_is_not_needed_any_more_is_given_back_while_nothing_happens(tmp_path, monkeypatch):
    monkeypatch.setattr(home_module, "DATA_TRIM_S", 0.01)
    monkeypatch.setattr(store, "DATA_UNUSED_S", -1.0)
    monkeypatch.setattr(store, "DATA_IDLE_S", -1.0)

    async def main():
        async with home_in(tmp_path) as home:
            lease = home.store.lease([memoryview(bytes(segments.SEGMENT_BYTES))])
            assert home.store.use().needed == segments.SEGMENT_BYTES
            lease.release()
            await asyncio.to_thread(wait_until, lambda: not home.store.is_used)

    run(main())
