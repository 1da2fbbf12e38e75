"""A policy of a few hundred weights, and an answer that can be checked."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from .schedule import SYMBOLS, Prompt, Run

CHUNK = 4  # tokens of a round
GROUP = 8  # answers to one prompt, whose mean reward is the baseline
CLIP = 0.2


class Policy(nn.Module):
    """Logits of the next token from the prompt's key and the token before."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2 * SYMBOLS, 64), nn.Tanh(), nn.Linear(64, SYMBOLS)
        )

    def forward(self, key: Tensor, before: Tensor) -> Tensor:
        """Any shape of int64 tokens; float32 logits, one dimension more."""
        dtype = next(self.parameters()).dtype
        pair = torch.cat([one_hot(key, SYMBOLS), one_hot(before, SYMBOLS)], -1)
        logits: Tensor = self.layers(pair.to(dtype))
        return logits.float()


class Rollout(NamedTuple):
    """The answers to one prompt, and by whom and how likely they were."""

    prompt: Prompt
    tokens: Tensor  # int64 [GROUP, length]
    logprobs: Tensor  # float32 [GROUP, length], as the sampler reports them
    entropies: Tensor  # float32 [GROUP, length], of what it reports from
    versions: Tensor  # int64 [length]: of the weights each token came from

    @property
    def whole(self) -> bool:
        """It has all the tokens that its prompt wants."""
        return len(self.versions) == self.prompt.rounds * CHUNK


def begin(prompt: Prompt) -> Rollout:
    """No tokens yet."""
    none = torch.empty(GROUP, 0, dtype=torch.int64)
    return Rollout(prompt, none, none.float(), none.float(), none[0])


def before(tokens: Tensor) -> Tensor:
    """Each token's predecessor; 0 is before the first."""
    return torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], 1)


def rewards(rollout: Rollout) -> Tensor:
    """[GROUP]: the share of tokens that are the one before plus the key."""
    right = (before(rollout.tokens) + rollout.prompt.key) % SYMBOLS
    return (rollout.tokens == right).float().mean(1)


@torch.no_grad()
def extend(
    policy: Policy,
    version: int,
    rollout: Rollout,
    cfg: Run,
    rng: torch.Generator,
) -> Rollout:
    """CHUNK tokens more, from the weights of `version`."""
    who, tokens, logprobs, entropies, versions = rollout
    last = tokens[:, -1] if len(versions) else torch.zeros(GROUP).long()
    for _ in range(CHUNK):
        logits = policy(torch.full_like(last, who.key), last)
        scaled = (logits / cfg.temperature).log_softmax(-1)
        last = torch.multinomial(scaled.exp(), 1, generator=rng)[:, 0]
        said = scaled if cfg.logprobs == "processed" else logits.log_softmax(-1)
        tokens = torch.cat([tokens, last[:, None]], 1)
        logprobs = torch.cat([logprobs, said.gather(1, last[:, None])], 1)
        entropy = -(said.exp() * said).sum(1, keepdim=True)
        entropies = torch.cat([entropies, entropy], 1)
    versions = torch.cat([versions, torch.full((CHUNK,), version)])
    return Rollout(who, tokens, logprobs, entropies, versions)


# --8<-- [start:loss]
def surrogate(
    policy: Policy, rollouts: list[Rollout], cfg: Run
) -> tuple[Tensor, Tensor]:
    """PPO's clipped objective, negated and summed over tokens, and each
    token's ratio: the trainer's probability over the sampler's."""
    losses, ratios = [], []
    for rollout in rollouts:
        tokens, reward = rollout.tokens, rewards(rollout)
        key = torch.full_like(tokens, rollout.prompt.key)
        logits = policy(key, before(tokens))
        if cfg.trainer_scales:
            logits = logits / cfg.temperature
        mine = logits.log_softmax(-1).gather(2, tokens[..., None])[..., 0]
        ratio = (mine - rollout.logprobs).exp()
        better = (reward - reward.mean()) / (reward.std() + 1e-4)
        gain = ratio * better[:, None]
        held = ratio.clamp(1 - CLIP, 1 + CLIP) * better[:, None]
        losses.append(-torch.minimum(gain, held).sum())
        ratios.append(ratio.detach().flatten())
    return torch.stack(losses).sum(), torch.cat(ratios)


# --8<-- [end:loss]
