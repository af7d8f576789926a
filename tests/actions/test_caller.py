import msgspec

from gateway.actions.caller import Caller
from gateway.grants import EVERYTHING


def _caller(user: str) -> Caller:
    return Caller(client="c", identity=msgspec.structs.replace(EVERYTHING, user=user))


def test_user_without_a_name_is_anonymous() -> None:
    assert _caller("").name == "anonymous"
    assert _caller("ann").name == "ann"


def test_writers_of_different_people_never_meet() -> None:
    writers = {_caller(user).writer(own) for user, own in [("a/b", "c"), ("a", "b/c"), ("a b", "c")]}
    assert writers == {"u/a%2Fb/c", "u/a/b%2Fc", "u/a%20b/c"}
