"""Findings, and events that are known: administrators see and change all, users see those of their own jobs."""

import base64
import re
from typing import Any

from flask import Blueprint, Response, g, jsonify

from jobdb.findings import EVENT_KINDS, PAGE_MAX, SEVERITIES, STATES, VERDICTS, Annotation, Comment, Finding, FindingError, Sought
from jobdb.job import Owner
from jobdb.runs import LATEST_NS

from . import params
from .bodies import bad_body, body
from .context import context
from .errors import ApiError, bad_parameter, no_job

blueprint = Blueprint("findings", __name__)

NAME_LENGTH_MAX = 4096
ID_MAX = 2**31 - 1
# What a body may hold, and what stands where it does not.
_CHANGES = dict.fromkeys(("state", "verdict", "cause", "remedy", "comment"), str)


@blueprint.get("/findings")
def list_findings():
    """A page of findings, the last begun first."""
    params.only("kind", "state", "severity", "node", "component", "instance", "job", "from_ns", "to_ns", "reported", "limit", "cursor")
    state, severity = params.choice("state", (*STATES, "any")), params.choice("severity", SEVERITIES) or ""
    states = STATES[:2] if state is None else () if state == "any" else (state,)
    texts = {name: params.text(name, NAME_LENGTH_MAX) for name in ("kind", "node", "component", "instance", "job")}
    from_ns, to_ns = params.integer("from_ns", None, 0, LATEST_NS), params.integer("to_ns", None, 0, LATEST_NS)
    only_reported = params.choice("reported", ("yes", "any")) != "any"
    limit, owner = params.integer("limit", 50, 1, PAGE_MAX) or 50, _owner()
    sought = Sought(states=states, severity=severity, from_ns=from_ns, to_ns=to_ns, only_reported=only_reported, owner=owner, **texts)
    found, total, after = context().jobdb.findings.page(sought, limit, _place()) if g.viewer.is_admin or owner is not None else ([], 0, None)
    return jsonify({"findings": [_json(one) for one in found], "total": total, "next_cursor": None if after is None else _cursor(after)})


@blueprint.get("/findings/<int:finding_id>")
def one_finding(finding_id: int):
    """A finding with its evidence, what was said of it, and the events of its time."""
    params.only()
    found, comments = _found(finding_id)
    of = found.found
    events = context().jobdb.findings.annotations(of.begin_ns, LATEST_NS if of.end_ns is None else of.end_ns, of.node) if g.viewer.is_admin else []
    # What administrators say to each other may name anybody.
    said = [_comment_json(one) for one in comments] if g.viewer.is_admin else []
    return jsonify({"finding": _json(found), "evidence": _seen(of.evidence), "comments": said, "annotations": [_event_json(one) for one in events]})


@blueprint.patch("/findings/<int:finding_id>")
def change_finding(finding_id: int):
    """What somebody makes of a finding."""
    params.only()
    given = body(_CHANGES, dict.fromkeys(_CHANGES))
    if all(value is None for value in given.values()):
        raise bad_body(f"expected at least one of {', '.join(_CHANGES)}; state: {', '.join(STATES)}; verdict: {', '.join(VERDICTS)}, or empty")
    _found(finding_id)
    try:
        context().jobdb.findings.change(finding_id, g.viewer.name, **given)
    except FindingError as error:
        raise bad_body(str(error)) from error
    return jsonify(_json(_found(finding_id)[0]))


@blueprint.post("/findings")
def detect():
    """Looks at a job now, and tells what is found in it."""
    params.only()
    key = body({"job": str})["job"]
    job, detection = context().jobdb.job(key), context().detection
    if job is None:
        raise no_job(key)
    if not job.settled:
        raise ApiError(409, "not_settled", f"job {key[:200]!r} runs, or its nodes have not told all of it", "ask again once it has ended")
    detection.look_at(job)
    findings = context().jobdb.findings
    found, total, _ = findings.page(Sought(job=job.key), PAGE_MAX)
    run = findings.past_run(job.key)
    told = None if run is None else {"program": run.program, "nodes": run.nodes, "processes": run.processes, "status": run.status}
    return jsonify({"findings": [_json(one) for one in found], "total": total, "next_cursor": None, "run": told})


@blueprint.get("/annotations")
def list_annotations():
    """Events of a time, the first begun first."""
    params.only("from_ns", "to_ns", "node")
    from_ns, to_ns = params.integer("from_ns", 0, 0, LATEST_NS) or 0, params.integer("to_ns", LATEST_NS, 0, LATEST_NS) or 0
    return jsonify({"annotations": [_event_json(one) for one in context().jobdb.findings.annotations(from_ns, to_ns, params.text("node") or None)]})


@blueprint.post("/annotations")
def annotate():
    """An event that somebody knows of."""
    params.only()
    given = body({"kind": str, "begin_ns": int, "end_ns": int, "node": str, "text": str}, {"end_ns": None, "node": "", "text": ""}, f"kinds are {', '.join(EVENT_KINDS)}; times are ns since the epoch")
    try:
        context().jobdb.findings.annotate([Annotation(author=g.viewer.name, **given)])
    except FindingError as error:
        raise bad_body(str(error)) from error
    return Response(status=204)


@blueprint.patch("/annotations/<int:annotation_id>")
def end_annotation(annotation_id: int):
    """Says when an event that was told by hand ended."""
    params.only()
    end_ns = body({"end_ns": int})["end_ns"]
    try:
        if annotation_id > ID_MAX or not context().jobdb.findings.end_annotation(annotation_id, end_ns):
            raise _no_annotation(annotation_id)
    except FindingError as error:
        raise bad_body(str(error)) from error
    return Response(status=204)


@blueprint.delete("/annotations/<int:annotation_id>")
def remove_annotation(annotation_id: int):
    """Removes an event that was told by hand."""
    params.only()
    if annotation_id > ID_MAX or not context().jobdb.findings.remove_annotation(annotation_id):
        raise _no_annotation(annotation_id)
    return Response(status=204)


def _no_annotation(number: int) -> ApiError:
    return ApiError(404, "no_annotation", f"no event {str(number)[:20]} was told by hand", "`bellrock events` lists them")


def _owner() -> Owner | None:
    """Of whose jobs alone findings are told; None to administrators, of whose there is none, too."""
    return None if g.viewer.is_admin else g.viewer.owner


def _found(number: int) -> tuple[Finding, list[Comment]]:
    found = context().jobdb.findings.one(number, _owner()) if number <= ID_MAX and (g.viewer.is_admin or _owner() is not None) else None
    if found is None:
        raise ApiError(404, "no_finding", f"there is no finding {str(number)[:20]}", "`bellrock findings` lists those that there are")
    return found


def _place() -> tuple[int, int] | None:
    given = params.text("cursor")
    if not given:
        return None
    try:
        found = re.fullmatch(rb"before:([0-9]{1,19}):([0-9]{1,10})", base64.urlsafe_b64decode(given + "=" * (-len(given) % 4)))
    except ValueError:
        found = None
    if found is None or int(found[1]) > LATEST_NS:
        raise bad_parameter("cursor", given, "the next_cursor of an answer")
    return int(found[1]), int(found[2])


def _cursor(place: tuple[int, int]) -> str:
    return base64.urlsafe_b64encode(f"before:{place[0]}:{place[1]}".encode()).decode().rstrip("=")


def _json(one: Finding) -> dict[str, Any]:
    of = one.found
    own = _keys([key for key, _ in of.jobs])
    return {
        "id": one.id, "kind": of.kind, "severity": of.severity, "begin_ns": of.begin_ns, "end_ns": of.end_ns, "times": of.times, "is_reported": of.is_reported,
        "node": of.node, "component": of.component, "instance": of.instance,
        "jobs": [{"job": key if key in own else None, "role": role} for key, role in of.jobs],
        "cause": of.cause, "cause_by": one.cause_by or None, "remedy": one.remedy, "state": one.state, "verdict": one.verdict, "found_ns": one.found_ns, "seen_ns": one.seen_ns,
        "changed_by": one.changed_by or None, "changed_ns": one.changed_ns, "comments": one.comments if g.viewer.is_admin else 0,
    }  # fmt: skip


def _keys(keys: list[str]) -> set[str]:
    """Those of jobs that whoever asks may see."""
    if g.viewer.is_admin:
        return set(keys)
    owner, jobdb = _owner(), context().jobdb
    return {key for key in keys if owner is not None and (job := jobdb.job(key)) is not None and owner.owns(job)}


def _seen(evidence: Any) -> Any:
    """Evidence as whoever asks may see it: others' jobs are not named, and no programs and users of theirs. A job's part of it is an object with its key as "job". What servers did before the job used them ("before") is left out."""
    if g.viewer.is_admin:
        return evidence
    if isinstance(evidence, dict):
        if "job" in evidence and not _keys([evidence["job"]]):
            return _wordless(evidence)
        return {name: _seen(value) for name, value in evidence.items() if name != "before"}
    return [_seen(one) for one in evidence] if isinstance(evidence, list) else evidence


def _wordless(evidence: Any) -> Any:
    """Evidence without any text in it, however deep."""
    if isinstance(evidence, dict):
        return {name: _wordless(value) for name, value in evidence.items()}
    if isinstance(evidence, list):
        return [_wordless(one) for one in evidence]
    return None if isinstance(evidence, str) else evidence


def _comment_json(one: Comment) -> dict[str, Any]:
    return {"at_ns": one.at_ns, "author": one.author, "text": one.text}


def _event_json(one: Annotation) -> dict[str, Any]:
    told = {"id": one.id, "kind": one.kind, "begin_ns": one.begin_ns, "end_ns": one.end_ns, "node": one.node, "text": one.text}
    return told | {"source": one.source, "author": one.author or None, "told_ns": one.told_ns}
