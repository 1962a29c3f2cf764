import traceback

import pytest

from wool_jupyter.aio.failure_report import FailureReport


def origin():
    raise LookupError("lost")


def failed():
    """As it comes out of `origin`, with a context of its own."""
    try:
        try:
            raise KeyError("first")
        except KeyError:
            origin()
    except LookupError as error:
        return error


def heard(report):
    try:
        report.report()
    except LookupError as error:
        return error


def depth(error):
    return len(traceback.extract_tb(error.__traceback__))


@pytest.mark.case("X-20")
def test_everyone_gets_the_same_instance_at_the_same_depth():
    error = failed()
    report = FailureReport(error)
    depths = set()
    for _ in range(100):
        assert heard(report) is error
        depths.add(depth(error))
    assert len(depths) == 1


@pytest.mark.case("X-20")
def test_the_origins_frames_are_kept():
    report = FailureReport(failed())
    for _ in range(2):
        names = [frame.name for frame in traceback.extract_tb(heard(report).__traceback__)]
        assert names[0] == "heard"
        assert names[-2:] == ["failed", "origin"]


@pytest.mark.case("X-20")
def test_the_context_is_put_back_at_each_report():
    error = failed()
    report = FailureReport(error)
    for _ in range(2):
        error.__context__, error.__suppress_context__ = ValueError("of another caller"), True
        assert repr(heard(report).__context__) == "KeyError('first')"
        assert error.__suppress_context__ is False


@pytest.mark.case("X-20")
@pytest.mark.parametrize("has_context", [True, False])
def test_what_the_caller_is_handling_is_not_stamped_on_it(has_context):
    """The rejected error of a dispatch would seem to have caused the failure."""
    error = failed() if has_context else LookupError("lost")
    context = error.__context__
    report = FailureReport(error)
    try:
        raise OSError("being handled")
    except OSError:
        assert heard(report) is error
    assert error.__context__ is context


def test_a_suppressed_context_stays_suppressed():
    try:
        raise LookupError("lost") from None
    except LookupError as error:
        report = FailureReport(error)
        error.__suppress_context__ = False
    assert heard(report).__suppress_context__ is True
