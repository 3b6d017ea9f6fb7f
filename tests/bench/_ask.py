"""Clients that ask over HTTP and note how long each answer took. What a client does with an answer is on another machine, so nothing is done with it here."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

LIMIT_S = 600.0


@dataclass(frozen=True)
class Question:
    """path: with its query. token: whose right it is asked by, "": the owner's."""

    path: str
    token: str = ""


class Client:
    """One connection. Raises RuntimeError for any answer but 200."""

    def __init__(self, where: str) -> None:
        host, _, port = where.partition(":")
        self._where = where
        self._socket = socket.create_connection((host, int(port)), timeout=LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get(self, question: Question) -> bytes:
        right = f"Authorization: Bearer {question.token}\r\n" if question.token else ""
        self._socket.sendall(f"GET {question.path} HTTP/1.1\r\nHost: {self._where}\r\n{right}\r\n".encode())
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._read()
        head = data[:end].lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        parts, left = [data[end + 4 :]], length - (len(data) - end - 4)
        while left:
            parts.append(self._read())
            left -= len(parts[-1])
        body = b"".join(parts)
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(f"{question.path}: {head[:30]!r}: {body[:500]!r}")
        return body

    def _read(self) -> bytes:
        part = self._socket.recv(1 << 18)
        if not part:
            raise RuntimeError("the server closed the connection")
        return part

    def close(self) -> None:
        self._socket.close()


def times_ms(where: str, questions: Sequence[Question], clients: int, before: Question | None = None) -> list[float]:
    """How long each answer took, `clients` asking at once, each one question after the other. before: asked before each, and not counted."""
    took: list[float] = []
    failed: list[BaseException] = []

    def ask(mine: Sequence[Question]) -> None:
        client = Client(where)
        try:
            for question in mine:
                if before is not None:
                    client.get(before)
                began = time.perf_counter()
                client.get(question)
                took.append((time.perf_counter() - began) * 1e3)
        except BaseException as error:
            failed.append(error)
        finally:
            client.close()

    threads = [threading.Thread(target=ask, args=(questions[number::clients],)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return took
