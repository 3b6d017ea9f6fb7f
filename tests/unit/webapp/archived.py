"""Puts jobs of a site into its archive, in small blocks, and counts those that are decoded."""

import pyarrow as pa
from tracepack import archive as codec

from pipeline.archive import State, of_job, read
from pipeline.archive.pack import natural
from pipeline.schema import KINDS
from pipeline.store.parts import Part
from tests.unit.jobdb.tables import T0, table
from tests.unit.webapp.fakes import S


class Archived:
    """A job, shown before, whose records retention has dropped from the store, but for those that the store still has. decoded: places of blocks, in turn."""

    def __init__(self, site, monkeypatch, rows, job="7", block_rows=24):
        monkeypatch.setattr(codec, "ROWS_MAX", block_rows)
        monkeypatch.setattr(codec, "PRIMER_ROWS", 4)
        site.get(f"/api/v1/jobs/{job}")
        self._job, self.decoded = job, []
        self.archive = site.app.extensions["bellrock"].second_pass.archive
        self.state = self.pack(rows)
        site.store.gone = [Part("runs", "old", "", len(rows), None, T0, T0 + 100 * S, "old", dropped_ns=T0 + 200 * S)]
        whole = read.decoded

        def decoded(archive, state, blocks, *chosen):
            for (place, _), found in zip(blocks, whole(archive, state, blocks, *chosen), strict=True):
                self.decoded.append(place)
                yield found

        monkeypatch.setattr(read, "decoded", decoded)

    @property
    def blocks(self):
        """How many there are."""
        return len(self.state.blocks) - len(self.state.primers)

    def pack(self, rows, generation=1):
        """Makes a generation of these rows."""
        kind = KINDS["run"].arrow
        runs = table(sorted(rows, key=lambda one: (natural(one["node"]), one["seq"])))
        runs = pa.table([runs[field.name].cast(field.type) for field in kind], kind.names)
        archiver = codec.Archiver(T0, T0 + 10 * S)
        blocks = archiver.push(runs) + archiver.finish()
        heads = [codec.Head.read(block) for block in blocks]
        sizes = tuple((len(block), head.head_bytes) for block, head in zip(blocks, heads, strict=True))
        primers = tuple(place for place, head in enumerate(heads) if head.is_primer)
        before = self.archive.states([of_job(self._job)]).get(of_job(self._job))
        writing = self.archive.write(of_job(self._job), generation, T0, iter(blocks))
        state = State(of_job(self._job), generation, writing, len(rows), len(rows), "", len(rows), 0, sizes, primers, T0, T0 + 10 * S, T0 + 100 * S)
        self.archive.seal(state, before)
        return state
