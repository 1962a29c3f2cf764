"""One kernel serves many tests: what an output test leaves behind is gone for the next."""

LEFT = """
import io, logging, sys
log = logging.getLogger("suite.left"); log.addHandler(logging.StreamHandler()); log.propagate = False; log.setLevel("DEBUG")
logging.basicConfig(format="left %(message)s", force=True)
get_ipython().display_formatter.formatters["text/html"].for_type(complex, lambda c: "left")
get_ipython().run_line_magic("config", "Wool.output_budget_bytes = 5")
sys.stderr = io.StringIO()
"""
FOUND = """
import logging, sys
log = logging.getLogger("suite.left")
found = (
    log.handlers, log.propagate, log.level, [h.formatter for h in logging.getLogger().handlers if h.formatter],
    complex in get_ipython().display_formatter.formatters["text/html"].type_printers,
    get_ipython().magics_manager.registry["Wool"].output_budget_bytes, type(sys.stderr).__name__,
)
"""


def test_a_reset_puts_back_what_output_tests_leave(kernel):
    kernel.ok(LEFT)
    kernel.reset()
    kernel.ok(FOUND)
    assert kernel.value("found") == ([], True, 0, [], False, 2_500_000, "OutStream")
    kernel.wool(FOUND.replace('get_ipython().magics_manager.registry["Wool"].output_budget_bytes', "0"))
    assert kernel.value("found[:4]") == ([], True, 0, [])
