"""What the schema has Elasticsearch index of samples is what the pages ask for."""

from pipeline.schema import KINDS
from webapp.api.losses import TOLD


def test_what_agents_tell_of_losses_can_be_searched_by():
    assert set(TOLD) == set(KINDS["sample"].searched)
