"""Passwords: in a file that its owner alone can read, never in a configuration, an address or a command line."""

import os
import stat
from pathlib import Path

SECRET_BYTES_MAX = 4096


class SecretError(ValueError):
    """The file cannot be used. `what` says why, `hint` what to do; the text is both."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}; {hint}")
        self.what = what
        self.hint = hint


def read_secret(path: Path) -> str:
    """The first line of a file, without blanks round it. Raises SecretError, also where others may read the file."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
                raise SecretError(f"{path}: it may be read by others than its owner ({stat.filemode(found.st_mode)})", f"run `chmod 600 {path}`")
            text = file.read(SECRET_BYTES_MAX).decode()
    except OSError as error:
        raise SecretError(f"{path}: cannot be read: {error.strerror}", f"it should hold a password: look with `ls -l {path}`") from error
    except UnicodeDecodeError as error:
        raise SecretError(f"{path}: the password is not UTF-8", "write one of ASCII letters and digits") from error
    secret = text.split("\n", 1)[0].strip()
    if not secret:
        raise SecretError(f"{path}: the first line is empty", "write the password there")
    return secret
