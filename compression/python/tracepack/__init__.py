"""Records as they come from the wire, many at a time: checked and put into columns without a Python object for each.

`Reader` takes what is as it should be. Whatever else comes (another kind, unknown keys, escapes, line ends, times that cannot be, what is no JSON)
it only points out: a slower reader looks at that, and says what is wrong with it. It takes no more than that reader does, and finds the same.
`inflate` takes apart what agents sent, `no_objects` and `rpush` look it through and pack it for the queue.
"""

from tracepack._native import Block, Inflated, Reader, inflate, no_objects, rpush

__all__ = ["Block", "Inflated", "Reader", "inflate", "no_objects", "rpush"]
