"""Every planted fault is found, replays from its token, and the library passes the same token."""

from __future__ import annotations

import pytest

from .faults import FAULTS, Fault, StaleFault, Words

pytestmark = [pytest.mark.promise("search.plants"), pytest.mark.search]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_planted_fault_is_found_and_its_token_replays_it(fault: Fault) -> None:
    with fault.planted():
        found = fault.find()
        assert found is not None, f"{fault.scenario} on {fault.backend} does not find it"
        again = fault.replay(found.token)
    assert (again.token, again.kind) == (found.token, found.kind)
    unplanted = fault.replay(found.token)
    assert unplanted.error is None, f"the library itself fails {found.token!r}: {unplanted.error}"


def test_a_fault_whose_words_are_gone_is_refused() -> None:
    gone = Words("_engine.host_call:HostCall.hurry", "no such words", "")
    with pytest.raises(StaleFault, match="0 times"), gone.replaced():
        pass
