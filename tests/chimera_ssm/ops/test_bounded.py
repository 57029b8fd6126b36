"""A cache with a bound."""

from chimera_ssm.ops.bounded import BoundedCache


def test_values_are_made_once_and_the_oldest_are_dropped():
    made, cache = [], BoundedCache(2)

    def value(key):
        return cache(key, lambda: made.append(key) or [key])

    assert value("a") is value("a")
    assert value("b") == ["b"]
    assert value("c") == ["c"]
    assert made == ["a", "b", "c"]
    value("c")
    value("b")
    assert made == ["a", "b", "c"]
    value("a")
    assert made == ["a", "b", "c", "a"]
