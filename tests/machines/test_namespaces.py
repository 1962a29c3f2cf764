"""Claims, borrows and releases of one namespace, in any order: who owns it, who may bind, and what lies on disk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.support.discovery import crash, tree, worker
from tests.support.disk_machines import DiskMachine, by_length
from tests.support.loops import run
from wool_jupyter.discovery import claim
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.errors import DiscoveryNamespaceInUse, DiscoveryNamespaceNotFound


class Namespaces(DiskMachine):
    """The model: who owns the namespace, and to which owner each publisher is bound."""

    instances = Bundle("instances")
    publishers = Bundle("publishers")

    @initialize()
    def begin(self):
        self.owner = None
        self.left_behind = False  # by an owner that crashed
        self.tried = set()
        self.bound_to = {}

    @rule(target=instances)
    def make_and_enter(self):
        made = LocalDiscovery("n", root=self.root)
        self.enter(made)
        return made

    @rule(target=instances)
    def make(self):
        return LocalDiscovery("n", root=self.root)

    @rule(instance=instances)
    def enter(self, instance):
        if id(instance) in self.tried:
            with pytest.raises(RuntimeError, match="once"):
                self.run(instance.__aenter__())
            return
        self.tried.add(id(instance))
        if self.owner is not None:
            with pytest.raises(DiscoveryNamespaceInUse):
                self.run(instance.__aenter__())
            return
        self.run(instance.__aenter__())
        self.owner, self.left_behind = instance, False

    @rule(instance=instances)
    def leave(self, instance):
        """Also one that was never entered, was rejected, or has left."""
        self.run(instance.__aexit__(None, None, None))
        if instance is self.owner:
            self.owner = None

    @rule()
    def crash_owner(self):
        if self.owner is not None:
            crash(self.owner)
            self.owner, self.left_behind = None, True

    @rule()
    def sweep(self):
        assert claim.sweep_if_dead(self.root / "n") == (self.owner is None)
        self.left_behind = False

    @rule()
    def bind_to_nobody(self):
        if self.owner is None:
            self.bind()

    @precondition(lambda self: self.owner is not None)
    @rule(target=publishers)
    def bind(self):
        publisher = LocalDiscovery.Publisher("n", root=self.root)
        if self.owner is None:
            with pytest.raises(DiscoveryNamespaceNotFound):
                self.run(publisher.__aenter__())
            return multiple()
        self.run(publisher.__aenter__())
        self.bound_to[publisher] = self.owner
        return publisher

    @rule(publisher=publishers, number=st.integers(1, 3))
    def publish(self, publisher, number):
        step = publisher.publish("worker-added", worker(number))
        if self.owner is not None and self.bound_to[publisher] is self.owner:
            self.run(step)
            return
        with pytest.raises(DiscoveryNamespaceNotFound):
            self.run(step)

    @rule(publisher=consumes(publishers))
    def unbind(self, publisher):
        publisher.close()
        del self.bound_to[publisher]

    @invariant()
    def disk_and_model_agree(self):
        if not hasattr(self, "owner"):
            return
        assert claim.is_served(self.root / "n") == (self.owner is not None)
        if self.owner is None and not self.left_behind:
            assert tree(self.root) == []

    async def end(self):
        for publisher in self.bound_to:
            publisher.close()
        if self.owner is not None:
            await self.owner.__aexit__(None, None, None)
        claim.sweep_dead(self.root)


@by_length
@pytest.mark.case("OWN-04", "OWN-03", "X-03")
def test_a_namespace_has_one_owner_whatever_happens(profile):
    run_state_machine_as_test(Namespaces, settings=profile)


@by_length
@pytest.mark.case("OWN-04")
def test_of_nested_entries_the_inner_ones_are_rejected(profile, root):
    """A forest of entries within entries, by their depths: the outermost is admitted, and who comes after it has left."""

    async def nest(depths):
        stack, owner = [], None
        for depth in depths:
            while len(stack) > depth:
                left = stack.pop()
                await left.__aexit__(None, None, None)
                owner = None if left is owner else owner
            entrant = LocalDiscovery("n", root=root)
            stack.append(entrant)
            if owner is None:
                owner = await entrant.__aenter__()
            else:
                with pytest.raises(DiscoveryNamespaceInUse):
                    await entrant.__aenter__()
            assert owner.directory.is_dir()
        for each in reversed(stack):
            await each.__aexit__(None, None, None)

    @profile
    @given(st.lists(st.integers(0, 3), min_size=1, max_size=8))
    def replay(depths):
        run(nest(depths))
        assert tree(root) == []

    replay()
