"""A number that changes when a check that a fast path has passed may turn out differently."""


class Generation:
    """The generation of settings and leadership at one broker.

    Each change of leadership, settings or the image of the cluster advances the generation.
    A fast path serves a request without repeating its checks only while the generation is that in
    which the general path passed them (`apis/fast_path.py`).
    """

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def advance(self) -> None:
        self.number += 1
