"""What is measured, without torch: the site's pictures are drawn from it."""

from dataclasses import asdict, dataclass

FSDP2 = "bf16, FSDP2"  # mixed precision by its policy


@dataclass(frozen=True)
class Shape:
    """Sizes, by the planner's names. The usual ones are those of Llama 3.2 1B
    (the model card's config.json): 1.24 billion parameters."""

    layers: int = 16
    hidden: int = 2048
    heads: int = 32
    kv_heads: int = 8
    ffn: int = 8192
    vocab: int = 128256

    def planned(self) -> dict[str, int]:
        """What the planner is given."""
        return {**asdict(self), "gated_mlp": 1, "tied_embeddings": 1}


SMALL = Shape(layers=12, hidden=512, heads=8, kv_heads=8, ffn=1408, vocab=8192)
