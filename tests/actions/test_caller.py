from gateway.actions.caller import Caller


def test_user_without_a_name_is_anonymous() -> None:
    assert Caller(client="c").name == "anonymous"
    assert Caller(client="c", user="ann").name == "ann"


def test_writers_of_different_people_never_meet() -> None:
    writers = {Caller(client="c", user=user).writer(own) for user, own in [("a/b", "c"), ("a", "b/c"), ("a b", "c")]}
    assert writers == {"u/a%2Fb/c", "u/a/b%2Fc", "u/a%20b/c"}
