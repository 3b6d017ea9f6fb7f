"""How much of what a client sends is asked for at once: Python has the room ready while it waits."""

import threading

import pytest

from pipeline.conversation import RECEIVE_BYTES, RECEIVE_BYTES_MAX, Conversation, Pace
from pipeline.lumberjack import Limits, Window
from pipeline.writer import Job
from tests.unit.pipeline.frames import json_frame, window_frame


class Connection:
    """Gives `data` as it is asked for, up to the end of one window at a time, and then the end. asked: sizes, by how many bytes had been given."""

    def __init__(self, *windows: bytes) -> None:
        self._left = list(windows)
        self._given = 0
        self.asked: list[tuple[int, int]] = []
        self.answers: list[bytes] = []

    def settimeout(self, _: float | None) -> None:
        pass

    def recv(self, size: int) -> bytes:
        self.asked.append((self._given, size))
        if not self._left:
            return b""
        data, self._left[0] = self._left[0][:size], self._left[0][size:]
        if not self._left[0]:
            del self._left[0]
        self._given += len(data)
        return data

    def sendall(self, data: bytes) -> None:
        self.answers.append(data)


class Writer:
    """Takes all at once."""

    def put(self, window: Window, _: None) -> Job:
        job = Job(window, None)
        job.stored = True
        job.settle()
        return job


def talk(*windows: bytes) -> Connection:
    connection = Connection(*windows)
    Conversation(connection, Writer(), threading.Event(), Limits(), Pace()).run()
    assert len(connection.answers) == len(windows)
    return connection


def window(size: int) -> bytes:
    """Of one event, of so many bytes with its frames."""
    head = window_frame(1)
    return head + json_frame(1, b"x" * (size - len(head + json_frame(1, b""))))


@pytest.mark.parametrize("size", [100, RECEIVE_BYTES - 1, RECEIVE_BYTES, RECEIVE_BYTES + 1, RECEIVE_BYTES * 4, 1_000_000])
def test_between_windows_little_is_asked_for(size):
    connection = talk(*[window(size)] * 3)
    between = [asked for given, asked in connection.asked if given % size == 0]
    assert between == [RECEIVE_BYTES] * 4


def test_a_large_window_comes_in_few_pieces():
    asked = [asked for _, asked in talk(window(1_000_000)).asked]
    assert max(asked) == RECEIVE_BYTES_MAX
    assert len(asked) < 10


def test_of_who_gives_little_little_is_asked_for():
    frames = window(RECEIVE_BYTES * 6)
    connection = Connection(*(frames[begin : begin + 1000] for begin in range(0, len(frames), 1000)))
    Conversation(connection, Writer(), threading.Event(), Limits(), Pace()).run()
    assert {asked for _, asked in connection.asked} == {RECEIVE_BYTES}
    assert len(connection.answers) == 1
