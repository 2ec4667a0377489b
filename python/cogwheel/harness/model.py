"""A language model of Cogwheel as lm-eval asks it: log-likelihoods of texts after contexts, and texts that go on."""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import tqdm
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.models.utils import normalize_gen_kwargs
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from cogwheel.nn import LanguageModel

Answer = tuple[float, bool]

# Logits that are made at once, of any vocabulary: 64 MB of them.
_logits_at_once = 1 << 24
# In a shorter context two passes cost more than what they share.
_shortest_shared = 8
_default_generated = 256  # tokens, as lm-eval's own models have it


@dataclasses.dataclass
class _Row:
    """Tokens after a context, and who asks about them: each place in the answers, and its continuation.

    A continuation is answered by every row that begins with all of it but its last token.
    """

    tokens: list[int]
    asked: list[tuple[int, list[int]]]


@dataclasses.dataclass
class _Passage:
    """A context, cut to what the model sees, with rows that follow it."""

    context: list[int]
    rows: list[_Row]

    @property
    def length(self) -> int:
        return len(self.context) + max(len(row.tokens) for row in self.rows)


def _rows(asked: list[tuple[int, list[int]]]) -> list[_Row]:
    rows: list[_Row] = []
    for place, continuation in sorted(asked, key=lambda each: -len(each[1])):
        seen = continuation[:-1]
        row = next((row for row in rows if row.tokens[: len(seen)] == seen), None)
        if row is None:
            row = _Row(seen, [])
            rows.append(row)
        row.asked.append((place, continuation))
    return rows


def _batches(items: Iterable[Any], size: int, alike: Any) -> Iterator[list[Any]]:
    """Neighbours that are ``alike``, up to ``size`` of them."""
    batch: list[Any] = []
    for item in items:
        if batch and (len(batch) == size or alike(item) != alike(batch[0])):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


class HarnessModel(TemplateLM):
    """The model of a run for ``lm_eval.simple_evaluate``.

    Args:
        run: its folder, or a language model that ``cogwheel.load`` gave.
        batch_size: texts of a pass.

    Contexts lose their beginning where they are longer than the model's, and rolling texts are cut into windows, as by lm-eval's own
    model of transformers. Choices after one context share the pass over it where the model decodes with a cache; others are
    whole passes. What stands before a text is ``LanguageModel.token_before_texts``, or else a newline.

    Raises:
        ValueError: another model, a run without a tokenizer, one that can begin no text.
    """

    def __init__(self, run: str | os.PathLike[str] | LanguageModel, batch_size: int = 8) -> None:
        super().__init__()
        self.model = run if isinstance(run, LanguageModel) else LanguageModel.load(run)
        self.batch_size = batch_size
        self._device = torch.device("cpu")
        self._begins = self.model.beginning_token
        self._end = self.model.token_before_texts if self.model.end_token is None else self.model.end_token
        self._prefix = self._first_token()
        self._encoded: dict[str, list[int]] = {}
        self.decodes = self._finds_whether_it_decodes()

    def _first_token(self) -> int:
        first = self.model.token_before_texts
        try:
            return int(self.model.tokens("\n")[-1]) if first is None else first
        except ValueError:
            raise ValueError("harness: expected a tokenizer with a token that begins or ends texts, or a newline, got none") from None

    def _finds_whether_it_decodes(self) -> bool:
        try:
            self.model.make_cache(1, 1)
        except ValueError:  # of mechanisms that are functions of the whole matrix
            return False
        return True

    @property
    def eot_token_id(self) -> int:
        return self._prefix if self._end is None else self._end

    @property
    def prefix_token_id(self) -> int:
        return self._prefix

    @property
    def max_length(self) -> int:
        return self.model.context

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        tokens: list[int] = self.model.tokens(string).tolist()
        return tokens[1:] if add_special_tokens is False and self._begins is not None else tokens

    # Choices have one context, which is not encoded for each.
    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        stripped = context.rstrip()
        continuation = context[len(stripped) :] + continuation
        if stripped not in self._encoded:
            self._encoded = {stripped: self.tok_encode(stripped)}
        known = self._encoded[stripped]
        return known, self.tok_encode(stripped + continuation)[len(known) :]

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[Answer]:
        for request in requests:
            if request.args[1] == "":
                raise ValueError(f"{request.task_name}: continuation: expected a text, got none")
        return super().loglikelihood(requests, disable_tqdm=disable_tqdm or _shows_no_progress())

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        windows, owners = [], []
        for place, request in enumerate(requests):
            for window in get_rolling_token_windows(
                token_list=self.tok_encode(request.args[0]), prefix_token=self._prefix, max_seq_len=self.max_length, context_len=1
            ):
                context, told = make_disjoint_window(window)
                windows.append((("", ""), context, told))
                owners.append(place)
        totals = [0.0] * len(requests)
        for place, (logarithm, _) in zip(owners, self._loglikelihood_tokens(windows, disable_tqdm or _shows_no_progress()), strict=True):
            totals[place] += logarithm
        return totals

    def _loglikelihood_tokens(self, requests: Sequence[tuple[Any, list[int], list[int]]], disable_tqdm: bool = False, **kwargs: Any) -> list[Answer]:
        by_context: dict[tuple[int, ...], list[tuple[int, list[int]]]] = collections.defaultdict(list)
        for place, (texts, context, continuation) in enumerate(requests):
            context = context or [self._prefix]  # one of white space alone
            if not 0 < len(continuation) <= self.max_length:
                raise ValueError(f"continuation: expected 1 to {self.max_length} tokens, the context of the model, got {len(continuation)}: {texts[1][:40]!r}")
            # The last token of a continuation is told, not read.
            seen = (context + continuation)[-(self.max_length + 1) :]
            by_context[tuple(seen[: len(seen) - len(continuation)])].append((place, continuation))
        answers: list[Answer] = [(0.0, False)] * len(requests)
        shared: list[_Passage] = []
        whole: list[_Passage] = []
        for context, asked in by_context.items():
            passage = _Passage(list(context), _rows(asked))
            if len(passage.rows) > 1 and self.decodes and len(context) >= _shortest_shared:
                shared.append(passage)
            else:
                whole += [_Passage(passage.context, [row]) for row in passage.rows]
        with torch.no_grad(), tqdm.tqdm(total=len(requests), desc="Log-likelihoods", disable=disable_tqdm) as progress:
            whole.sort(key=lambda passage: -passage.length)
            # Padding follows a text, where no token sees it: but rows of a function of the whole matrix are summed over it.
            for batch in _batches(whole, self.batch_size, lambda passage: 0 if self.decodes else passage.length):
                progress.update(self._answer_whole(batch, answers))
            # A state has no place for padding before what follows.
            shared.sort(key=lambda passage: (-len(passage.context), -passage.length))
            for batch in _batches(shared, self.batch_size, lambda passage: len(passage.context)):
                progress.update(self._answer_shared(batch, answers))
        return answers

    def _answer_whole(self, passages: list[_Passage], answers: list[Answer]) -> int:
        """How many are answered by it, as of the others."""
        rows = [passage.rows[0] for passage in passages]
        hidden = self.model._normed(_padded([passage.context + row.tokens for passage, row in zip(passages, rows, strict=True)]))
        return self._answer(rows, [hidden[place, len(passage.context) - 1 :] for place, passage in enumerate(passages)], answers)

    def _answer_shared(self, passages: list[_Passage], answers: list[Answer]) -> int:
        """The contexts but for their last tokens once, then every row from there."""
        cache = self.model.make_cache(len(passages), max(passage.length for passage in passages))
        self.model._normed(torch.tensor([passage.context[:-1] for passage in passages]), cache=cache)
        pairs = [(place, row) for place, passage in enumerate(passages) for row in passage.rows]
        answered = 0
        for some in _batches(pairs, self.batch_size, lambda _: 0):
            forked = cache.fork([place for place, _ in some])
            hidden = self.model._normed(_padded([passages[place].context[-1:] + row.tokens for place, row in some]), cache=forked)
            answered += self._answer([row for _, row in some], list(hidden), answers)
        return answered

    def _answer(self, rows: list[_Row], hidden: list[torch.Tensor], answers: list[Answer]) -> int:
        """``hidden`` has for each row what the model makes of the last token of its context and of the row."""
        told, asked = [], []
        stands: list[int] = []  # what is told of each token of the continuations, one after the other
        for row, each in zip(rows, hidden, strict=True):
            begin = sum(map(len, told))
            told.append(each[: len(row.tokens) + 1])
            for place, continuation in row.asked:
                asked.append((place, continuation))
                stands += range(begin, begin + len(continuation))
        of, tokens = torch.tensor(stands), torch.tensor([token for _, continuation in asked for token in continuation])
        logarithms, likeliest = torch.empty(len(of), dtype=torch.float64), torch.empty(len(of), dtype=torch.bool)
        at_once = max(1, _logits_at_once // self.model.options["vocabulary"])
        for number, part in enumerate(torch.cat(told).split(at_once)):
            known = torch.log_softmax(self.model._logits_of(part).float(), -1)
            here = ((of // at_once) == number).nonzero().flatten()
            logarithms[here] = known[of[here] % at_once, tokens[here]].double()
            likeliest[here] = known.argmax(-1)[of[here] % at_once] == tokens[here]
        lengths = [len(continuation) for _, continuation in asked]
        for (place, _), each, hits in zip(asked, logarithms.split(lengths), likeliest.split(lengths), strict=True):
            answers[place] = (float(each.sum()), bool(hits.all()))
        return len(asked)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        texts = [""] * len(requests)
        alike: dict[str, list[int]] = collections.defaultdict(list)
        for place, request in enumerate(requests):
            alike[repr(sorted(request.args[1].items()))].append(place)
        for places in alike.values():
            options = self._generation_options(requests[places[0]].args[1])
            most = self.max_length - options["length"]
            prompts = [torch.tensor((self.tok_encode(requests[place].args[0]) or [self._prefix])[-most:]) for place in places]
            for place, made in zip(places, self.model.generate(prompts, batch=self.batch_size, **options), strict=True):
                texts[place] = made.text
        return texts

    def _generation_options(self, given: dict[str, Any]) -> dict[str, Any]:
        """Of ``model.generate``."""
        named = any(name in given for name in ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"))
        wanted = dict(normalize_gen_kwargs(given, _default_generated if named else min(_default_generated, self.max_length // 2)))
        length, until, draws = wanted.pop("max_gen_toks"), wanted.pop("until"), wanted.pop("do_sample")
        if not 1 <= length < self.max_length:
            raise ValueError(f"max_gen_toks: expected 1 to {self.max_length - 1}, below the context of the model, got {length}")
        options = {"length": length, "end_token": -1 if self._end is None else self._end, "stop": [text for text in until if text], "temperature": float(wanted.pop("temperature", 1.0)) if draws else 0.0}
        for name in ("top_k", "top_p", "min_p", "repetition_penalty"):
            if name in wanted:
                options[name] = wanted.pop(name)
        if wanted:
            known = "until, max_gen_toks, do_sample, temperature, top_k, top_p, min_p, repetition_penalty"
            raise ValueError(f"generation_kwargs: expected {known}, got {next(iter(wanted))}")
        return options


def _shows_no_progress() -> bool:
    """As the executable says where standard error is no terminal; lm-eval itself overrules the environment."""
    return bool(os.environ.get("TQDM_DISABLE"))


def _padded(texts: list[list[int]]) -> torch.Tensor:
    longest = max(map(len, texts))
    return torch.tensor([text + [0] * (longest - len(text)) for text in texts])
