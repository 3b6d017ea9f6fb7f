"""What Elasticsearch's users may do is said in three places: they must say the same."""

import re
from pathlib import Path

import jinja2
import yaml

from pipeline.store.elastic.roles import ANALYST, ARCHIVE, READER, RETENTION, SUMMARIES, roles

ROOT = Path(__file__).resolve().parents[3]
GROUPS = ("g1", "login_nodes")


def test_ansibles_template_gives_the_same_roles():
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)
    environment.filters["extract"] = lambda host, hosts, name: hosts[host][name]
    template = environment.from_string((ROOT / "ansible/roles/logserver/templates/roles.yml.j2").read_text())
    hosts = {f"log{number}": {"logserver_group": group} for number, group in enumerate(GROUPS)}
    rendered = template.render(ansible_managed="", groups={"logservers": list(hosts)}, hostvars=hosts)
    assert yaml.safe_load(rendered) == roles(GROUPS)


def test_the_documents_roles_are_the_same():
    text = (ROOT / "docs/elasticsearch.md").read_text()
    told = {name: role for block in re.findall(r"```yaml\n(.*?)```", text, re.S) for name, role in yaml.safe_load(block).items()}
    assert {name: told[name] for name in (READER, RETENTION, SUMMARIES, ARCHIVE, ANALYST)} == roles(())
    # For all groups at once; the aliases are among its indices' names.
    (of_all,), (own, _) = told["bellrock_writer"]["indices"], roles(["g1"])["ingest_g1"]["indices"]
    assert of_all["privileges"] == own["privileges"] and told["bellrock_writer"]["cluster"] == roles(["g1"])["ingest_g1"]["cluster"]
