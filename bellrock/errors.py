"""What can go wrong for a user: what, where, and what to do next. `cli` turns these into an exit code, never a traceback."""

from collections.abc import Sequence

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNAVAILABLE = 3
# As the help of each verb tells them.
EXIT_CODES = """\b
Exit codes:
  0  done
  1  not found, or failed
  2  the command line or the configuration is wrong
  3  no server answers, or none can be started
"""


class BellrockError(Exception):
    """An error for a person. `what` says what failed and where, `hint` which command or step comes next, `detail` are lines of
    another program that tell more."""

    exit_code = EXIT_FAILED

    def __init__(self, what: str, hint: str = "", detail: Sequence[str] = ()) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.detail = tuple(detail)

    def __str__(self) -> str:
        return "\n  ".join((f"{self.what}; {self.hint}" if self.hint else self.what, *self.detail))


class UsageError(BellrockError):
    """The command line or the configuration is wrong."""

    exit_code = EXIT_USAGE


class Unavailable(BellrockError):
    """No server answers, or one could not be started."""

    exit_code = EXIT_UNAVAILABLE


class ServerFault(Unavailable):
    """No server can be started here, and to try again at once would be in vain."""


class ApiError(BellrockError):
    """The server answered with an error. `status` is HTTP's, `code` the API's own word. retry_after_s: when a busy server wants to be asked again."""

    def __init__(self, what: str, hint: str = "", *, status: int = 0, code: str = "", retry_after_s: int | None = None) -> None:
        super().__init__(what, hint)
        self.status = status
        self.retry_after_s = retry_after_s
        self.code = code
        if status >= 500:
            self.exit_code = EXIT_UNAVAILABLE
