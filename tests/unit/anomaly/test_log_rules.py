"""Rules of events: the shipped ones, a site's own, and what is wrong told by file and line."""

import random
import re
import time
import tomllib
from pathlib import Path

import pytest

from anomaly.log_rules import PATTERN_LENGTH_MAX, TEXT_LENGTH_MAX, Rule, RuleError, Rules, fits, load, parse

GOOD = '[[rule]]\nname = "ours"\nwhat = "patched"\nkind = "maintenance"\nprograms = ["yum"]\nbegins = ["Updated: kernel*"]\nlasts_s = 600\n'
AGENT_EVENTS = Path(__file__).parents[3] / "collectors/agent/src/sources/syslog/events.toml"


def test_the_shipped_rules_know_only_events_that_agents_tell_and_fit_their_own_lines():
    known = {}
    for one in tomllib.loads(AGENT_EVENTS.read_text())["event"]:
        known.setdefault(one["name"], []).extend(one["lines"])
    rules = load()
    assert set(rules.events) <= set(known)
    for rule in rules.by_name.values():
        assert rule.begins and rule.what.isprintable()
        for name in (*rule.begins, *rule.ends):
            assert rule.phase("kernel", name, "") == ("begin" if name in rule.begins else "end")
            if rule.of:
                assert all(rule.subject(line) in ("scratch-OST0004", "md0") for line in known[name]), name


def test_patterns_mean_what_a_regular_expression_would():
    chance = random.Random(3)
    for _ in range(3000):
        pattern, text = ("".join(chance.choice("ab*" if kind else "ab") for _ in range(chance.randrange(1, 7))) for kind in (1, 0))
        assert fits(pattern, text) == bool(re.match(".*".join(map(re.escape, pattern.split("*"))), text))


def test_no_pattern_takes_long():
    began_s = time.monotonic()
    pattern, text = "*a" * (PATTERN_LENGTH_MAX // 2) + "b", "a" * TEXT_LENGTH_MAX
    rule = Rule("bomb", "bomb", "other", (), 1, of=(pattern, "*a" * 50 + "b", "?*" * 50 + "b"))
    for _ in range(50):
        assert not fits(pattern, text) and not rule.subject(f"{'a' * 64} {text}")
    assert time.monotonic() - began_s < 5


def test_a_sites_rules_come_beside_the_shipped_ones_or_in_their_place(tmp_path):
    own = tmp_path / "events.toml"
    own.write_text(GOOD + '[[rule]]\nname = "lustre-eviction"\nwhat = "none"\nkind = "other"\nbegins = []\nlasts_s = 1\n')
    rules = load(own)
    assert set(rules.by_name) == set(load().by_name) - {"lustre-eviction"} | {"ours"}
    assert rules.events is None, "texts are looked into: all messages are wanted"
    assert Rules({name: rule for name, rule in rules.by_name.items() if name != "ours"}).events


@pytest.mark.parametrize(
    ("change", "line", "says"),
    [
        (('name = "ours"', 'name = "O U R S"'), 2, "name = "), (('kind = "maintenance"', 'kind = "earthquake"'), 4, "take failover"), (("600", "0"), 7, "lasts_s"), (("600", '"1h"'), 7, "lasts_s"),
        (("600", "true"), 7, "lasts_s"), (('["Updated: kernel*"]', '"x"'), 6, "list"), (('["Updated: kernel*"]', '["**"]'), 6, "fits everything"), (('["Updated: kernel*"]', '[""]'), 6, "list"),
        (('["Updated: kernel*"]', '["' + "x" * 201 + '"]'), 6, "list"), (('programs = ["yum"]\n', ""), 5, "no name of an event"), (('what = "patched"', 'what = "a\\u001bb"'), 3, "printed"),
        (("lasts_s = 600", 'lasts_s = 600\nregex = "(a+)+"'), 8, "unknown setting 'regex'"), (('what = "patched"\n', ""), 2, "what is missing"), (("lasts_s = 600\n", f"lasts_s = 600\n{GOOD}"), 9, "a second rule ours"),
        (('kind = "maintenance"', "kind = 4"), 4, "kind is no text"),
    ],
)  # fmt: skip
def test_a_wrong_rule_is_told_by_file_and_line(tmp_path, change, line, says):
    own = tmp_path / "events.toml"
    own.write_text(GOOD.replace(*change))
    with pytest.raises(RuleError) as told:
        load(own)
    assert str(told.value).startswith(f"{own}:{line}: ") and says in str(told.value)


@pytest.mark.parametrize("text", ["rule = 3", "[[rule]]\nname =", "[other]\nx = 1", "rule = [1]", "x" * 10, GOOD * 101, "[[rule]]\nwhat = '''\n[[rule]]\n'''", "a = " + "[" * 5000])
def test_what_is_no_file_of_rules_is_told(text):
    with pytest.raises(RuleError, match="^where"):
        parse(text, "where")


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    for make in (lambda path: None, lambda path: path.mkdir(), lambda path: path.write_bytes(b"\xff"), lambda path: path.write_bytes(b"#" * (1 << 21))):
        path = tmp_path / str(make)[-9:-1]
        make(path)
        with pytest.raises(RuleError, match=re.escape(str(path))):
            load(path)
