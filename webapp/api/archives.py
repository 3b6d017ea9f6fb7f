"""What the archive holds of a subject: its state, to have it packed now, and whether all of it can be read."""

from flask import Blueprint, jsonify

from pipeline.archive import Damaged, of_job
from pipeline.archive.read import checked

from . import params
from .context import context
from .errors import ApiError, bad_parameter, no_job
from .second_pass import SecondPass

blueprint = Blueprint("archives", __name__)

# Blocks that are read in one request.
CHECKED_AT_ONCE = 32


@blueprint.get("/archives")
def show():
    """What is known of the archive of a job, or of the rest of a day."""
    params.only("subject")
    return jsonify(_second_pass().of_subject(_subject()))


@blueprint.post("/archives")
def pack():
    """Has a job packed next; returns at once."""
    params.only("subject")
    key = _subject().removeprefix(of_job(""))
    if of_job(key) != _subject():
        raise bad_parameter("subject", _subject(), "a job: what is left of a day is packed when it is to be dropped")
    if context().jobdb.job(key) is None:
        raise no_job(key)
    if not _second_pass().is_running:
        raise ApiError(409, "packs_nothing", "this server packs nothing: a command began it for itself", "start `bellrock server`, then ask again")
    if not _second_pass().ask(key):
        raise ApiError(503, "busy", "too many jobs wait to be packed", "ask again in a minute", {"Retry-After": "30"})
    return jsonify(_second_pass().of_subject(of_job(key))), 202


@blueprint.get("/archives/check")
def check():
    """Reads and decodes some blocks, from one on."""
    params.only("subject", "from")
    subject, archive = _subject(), _second_pass().archive
    state = archive.states([subject]).get(subject)
    if state is None:
        return jsonify({"subject": subject, "generation": None, "blocks": 0, "checked": 0, "damaged": [], "next": None})
    begin = params.integer("from", 0, 0, max(len(state.blocks) - 1, 0))
    places = range(begin, min(begin + CHECKED_AT_ONCE, len(state.blocks)))
    try:
        damaged = [{"block": place, "error": error} for place, error in zip(places, checked(archive, state, places), strict=True) if error is not None]
    except Damaged as error:
        damaged = [{"block": begin, "error": str(error)}]
    following = places.stop if places.stop < len(state.blocks) else None
    return jsonify({"subject": subject, "generation": state.generation, "blocks": len(state.blocks), "checked": len(places), "damaged": damaged, "next": following})


def _subject() -> str:
    """As `pipeline.archive` calls it."""
    given = params.text("subject")
    if not given.startswith(("job ", "rest ")):
        raise bad_parameter("subject", given, '"job ID", or "rest DAY" with the group of nodes behind it where there are groups')
    return given


def _second_pass() -> SecondPass:
    found = context().second_pass
    if found is None:
        raise ApiError(404, "no_archive", "this server keeps no archive", "set run = true in [archive] of server.toml, then start it again")
    return found
