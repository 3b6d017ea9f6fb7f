"""Passwords: in a file that its owner alone can read, never in a configuration, an address or a command line."""

import os
import stat
from pathlib import Path

SECRET_BYTES_MAX = 4096


class SecretError(ValueError):
    """The file cannot be used; the text says why and what to do."""


def read_secret(path: Path) -> str:
    """The first line of a file. Raises SecretError, also where others may read the file."""
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise SecretError(f"{path}: others than its owner may read the password; run: chmod 600 {path}")
            text = file.read(SECRET_BYTES_MAX).decode()
    except OSError as error:
        raise SecretError(f"{path}: {error.strerror}; it should hold a password: look with `ls -l {path}`") from error
    except UnicodeDecodeError as error:
        raise SecretError(f"{path}: no UTF-8; it should hold a password") from error
    secret = text.split("\n", 1)[0].strip()
    if not secret:
        raise SecretError(f"{path}: its first line is empty; it should hold a password")
    return secret
