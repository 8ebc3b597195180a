"""Faults of the network on the way to a real object store."""

from __future__ import annotations

import attrs
import pytest

from tests.concurrency.crew import ON_A_STORE, Places
from tests.concurrency.verbs import BASE, VERBS, make_table, open_at, values
from tests.s3.proxy import losing_answers

pytestmark = [
    pytest.mark.s3,
    pytest.mark.skipif(not ON_A_STORE, reason="make test-s3 starts the object store that this needs"),
]


@pytest.mark.parametrize("retries", ["0", "10"], ids=["the client gives up", "the client asks again"])
def test_a_commit_whose_answer_was_lost_on_the_way_is_there_once(places, tmp_path, retries):
    source = make_table(tmp_path / "source")
    with losing_answers(places.options["AWS_ENDPOINT_URL"]) as (endpoint, lost):
        unsure = attrs.evolve(places, options={**places.options, "AWS_ENDPOINT_URL": endpoint, "max_retries": retries})
        for number, name in enumerate(name for name, verb in VERBS.items() if not verb.damaged):
            url = places.copy(source)
            alone = Places(str(tmp_path), None).copy(source, f"alone-{number}")

            instant = VERBS[name].run(open_at(url, unsure.options), "a")

            assert (name, instant.version, len(lost)) == (name, BASE + 1, number + 1)
            VERBS[name].run(open_at(alone), "a")
            table = open_at(url, places.options)
            assert [one.version for one in table.timeline] == list(range(BASE + 2))
            assert (name, values(url, places.options)) == (name, values(alone))
