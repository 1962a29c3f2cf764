"""`%%wool --help` with nothing below it: IPython refuses a cell magic without a body before that is asked."""

from typing import TYPE_CHECKING

from wool_jupyter.notebook import usage

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def to_line(lines: list[str]) -> list[str]:
    """Of a whole cell: the line magic, which takes the same option."""
    match "".join(lines).split():
        case ["%%wool", option] if option in usage.ASKS:
            return [f"%wool {option}\n"]
    return lines


def load(shell: "InteractiveShell") -> None:
    unload(shell)
    shell.input_transformer_manager.cleanup_transforms.append(to_line)


def unload(shell: "InteractiveShell") -> None:
    """Idempotent."""
    manager = shell.input_transformer_manager
    manager.cleanup_transforms[:] = [each for each in manager.cleanup_transforms if each is not to_line]
