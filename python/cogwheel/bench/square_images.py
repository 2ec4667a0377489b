"""What the peers of `bench training` that learn from images share: batches of square images, cut into square patches."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SquareImages:
    """`batch` square images of `side` pixels, cut into square patches of `patch`."""

    layers: int
    heads: int
    width: int
    side: int
    patch: int
    batch: int
    channels: int = 3

    counted = "images"
    mechanisms = ("softmax", "cog")

    @property
    def items(self) -> int:
        """Of a step, by which speeds are given."""
        return self.batch

    @property
    def patches(self) -> int:
        return (self.side // self.patch) ** 2

    def options(self, mechanism: str) -> dict[str, object]:
        """Of a configuration, but for its task."""
        return {
            "model.mechanism": mechanism, "model.layers": self.layers, "model.heads": self.heads,
            "model.width": self.width, "model.image_size": self.side, "model.channels": self.channels,
            "model.patch": self.patch, "training.batch": self.batch,
        }  # fmt: skip

    def words(self, mechanism: str) -> list[str]:
        """Of `cogwheel bench-steps`."""
        return [f"--set={key}={value}" for key, value in self.options(mechanism).items()]
