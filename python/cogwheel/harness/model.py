"""A language model of Cogwheel as lm-eval asks it: log-likelihoods of texts after contexts, and texts that go on."""

from __future__ import annotations

import collections
import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import tqdm
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.models.utils import normalize_gen_kwargs
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from cogwheel.harness.passages import Passage, Row, batches, padded, rows_of
from cogwheel.nn import LanguageModel

Answer = tuple[float, bool]

# Logits that are made at once, of any vocabulary: 64 MB of them.
_logits_at_once = 1 << 24
# In a shorter context two passes cost more than what they share.
_shortest_shared = 8
_default_generated = 256  # tokens, as lm-eval's own models have it
# Prompts between two steps of the bar. Each has random numbers of its own, which --batch must not change.
_prompts_at_once = 64
_never = -10_000.0  # the bias of a token that is never likely


class HarnessModel(TemplateLM):
    """The model of a run for ``lm_eval.simple_evaluate``.

    Args:
        run: its folder, or a language model that ``cogwheel.load`` gave.
        batch_size: texts of a pass.
        seed: of generated texts that are drawn.

    Contexts lose their beginning where they are longer than the model's, and rolling texts are cut into windows, as by lm-eval's own
    model of transformers. Choices after one context share the pass over it where the model decodes with a cache; others are
    whole passes. What stands before a text is ``LanguageModel.token_before_texts``. A model without such a token has one row more
    while it is asked, as its export has (``docs/interchange.md``). Dropout is off.

    Raises:
        ValueError: another model, a run without a tokenizer, a batch of none.
    """

    def __init__(self, run: str | os.PathLike[str] | LanguageModel, batch_size: int = 8, seed: int = 1234) -> None:
        super().__init__()
        if batch_size < 1:
            raise ValueError(f"batch_size: expected 1 or more, got {batch_size}")
        self.model = run if isinstance(run, LanguageModel) else LanguageModel.load(run)
        self.batch_size, self.seed = batch_size, seed
        self._device = torch.device("cpu")
        self.model.tokens("")  # refuses a model without a tokenizer
        self._begins = self.model.beginning_token
        before = self.model.token_before_texts
        self._adds_row = before is None
        self._prefix: int = self.model.options["vocabulary"] if before is None else before
        self._end = self._prefix if self.model.end_token is None else self.model.end_token
        self._encoded: dict[str, list[int]] = {}
        self.decodes = self.model.can_decode

    @property
    def eot_token_id(self) -> int:
        return self._end

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

    def _question(self, request: Instance) -> tuple[Any, list[int], list[int]]:
        """Of a log-likelihood: its texts, and the tokens of context and continuation."""
        context, continuation = request.args
        if continuation == "":
            raise ValueError("continuation: expected a text, got none")
        if context == "":  # no token of a text stands before texts, so that none is taken for it, unlike lm-eval does
            return request.args, [self._prefix], self._fitting(self.tok_encode(continuation, add_special_tokens=False), continuation)
        before, after = self._encode_pair(context, continuation)
        return request.args, before, self._fitting(after, continuation)

    def _fitting(self, continuation: list[int], text: str) -> list[int]:
        if not 0 < len(continuation) <= self.max_length:
            expected = f"1 to {self.max_length} tokens, the context of the model"
            raise ValueError(f"continuation: expected {expected}, got {len(continuation)}: {text[:40]!r}")
        return continuation

    def _prompt(self, text: str) -> list[int]:
        tokens = self.tok_encode(text)
        if not tokens and self._adds_row:
            raise ValueError("generate_until: expected a text that goes on, since no token of the run begins texts, got none")
        return tokens or [self._prefix]

    def check(self, requests: Sequence[Instance]) -> None:
        """Raises ValueError, with the number of its row, for a request that the model cannot answer, without a pass."""
        for request in requests:
            try:
                if request.request_type == "generate_until":
                    self._generation_options(request.args[1])
                    self._prompt(request.args[0])
                elif request.request_type == "loglikelihood_rolling":
                    self.tok_encode(request.args[0])
                else:
                    self._question(request)
            except ValueError as error:
                raise ValueError(f"row {request.doc_id + 1}: {error}") from None

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[Answer]:
        hidden = disable_tqdm or _shows_no_progress()
        questions = [self._question(request) for request in tqdm.tqdm(requests, desc="Tokenizing", disable=hidden)]
        return self._loglikelihood_tokens(questions, disable_tqdm=hidden)

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        windows, owners = [], []
        for place, request in enumerate(requests):
            tokens = self.tok_encode(request.args[0])
            for window in get_rolling_token_windows(tokens, prefix_token=self._prefix, max_seq_len=self.max_length, context_len=1):
                windows.append((("", ""), *make_disjoint_window(window)))
                owners.append(place)
        totals = [0.0] * len(requests)
        answers = self._loglikelihood_tokens(windows, disable_tqdm or _shows_no_progress())
        for place, (logarithm, _) in zip(owners, answers, strict=True):
            totals[place] += logarithm
        return totals

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        """Without dropout and gradients, and with the row more where one is needed: the mean of the others, as ``export`` adds it."""
        modes = [(module, module.training) for module in self.model.modules()]
        grown = [(self.model, "token_embedding")]
        if hasattr(self.model, "head"):
            grown += [(self.model.head, name) for name in ("weight", "bias") if getattr(self.model.head, name, None) is not None]
        own = [(module, name, getattr(module, name)) for module, name in grown if self._adds_row]
        self.model.eval()
        try:
            with torch.no_grad():
                for module, name, rows in own:
                    row = rows.new_full((1,), _never) if name == "bias" else rows.mean(0, keepdim=True)
                    setattr(module, name, torch.nn.Parameter(torch.cat([rows, row])))
                yield
        finally:
            for module, name, rows in own:
                setattr(module, name, rows)
            for module, mode in modes:
                module.training = mode

    def _loglikelihood_tokens(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], disable_tqdm: bool = False, **kwargs: Any
    ) -> list[Answer]:
        by_context: dict[tuple[int, ...], list[tuple[int, list[int]]]] = collections.defaultdict(list)
        for place, (texts, context, continuation) in enumerate(requests):
            context = context or [self._prefix]  # one of white space alone
            whole_text = context + self._fitting(continuation, texts[1])
            seen = whole_text[-(self.max_length + 1) :]
            by_context[tuple(seen[: len(seen) - len(continuation)])].append((place, continuation))
        answers: list[Answer] = [(0.0, False)] * len(requests)
        shared: list[Passage] = []
        whole: list[Passage] = []
        for context, asked in by_context.items():
            passage = Passage(list(context), rows_of(asked, causal=self.decodes))
            if len(passage.rows) > 1 and self.decodes and len(context) >= _shortest_shared:
                shared.append(passage)
            else:
                whole += [Passage(passage.context, [row]) for row in passage.rows]
        with self._asked(), tqdm.tqdm(total=len(requests), desc="Log-likelihoods", disable=disable_tqdm) as progress:
            whole.sort(key=lambda passage: -passage.length)
            # Padding follows a text, where no token sees it: but rows of a function of the whole matrix are summed over it.
            for batch in batches(whole, self.batch_size, lambda passage: 0 if self.decodes else passage.length):
                progress.update(self._answer_whole(batch, answers))
            # A state has no place for padding before what follows.
            shared.sort(key=lambda passage: (-len(passage.context), -passage.length))
            for batch in batches(shared, self.batch_size, lambda passage: len(passage.context)):
                progress.update(self._answer_shared(batch, answers))
        return answers

    def _answer_whole(self, passages: list[Passage], answers: list[Answer]) -> int:
        """How many are answered by it, as of the others."""
        rows = [passage.rows[0] for passage in passages]
        hidden = self.model(padded([passage.context + row.tokens for passage, row in zip(passages, rows, strict=True)]), head=False)
        return self._answer(rows, [hidden[place, len(passage.context) - 1 :] for place, passage in enumerate(passages)], answers)

    def _answer_shared(self, passages: list[Passage], answers: list[Answer]) -> int:
        """The contexts but for their last tokens once, then every row from there."""
        cache = self.model.make_cache(len(passages), max(passage.length for passage in passages))
        self.model(torch.tensor([passage.context[:-1] for passage in passages]), cache=cache, head=False)
        pairs = [(place, row) for place, passage in enumerate(passages) for row in passage.rows]
        answered = 0
        for batch in batches(pairs, self.batch_size):
            forked = cache.fork([place for place, _ in batch])
            hidden = self.model(padded([passages[place].context[-1:] + row.tokens for place, row in batch]), cache=forked, head=False)
            answered += self._answer([row for _, row in batch], list(hidden), answers)
        return answered

    def _answer(self, rows: list[Row], hidden: list[torch.Tensor], answers: list[Answer]) -> int:
        """``hidden`` has for each row what the model makes of the last token of its context and of the row."""
        parts, asked = [], []
        places: list[int] = []  # in all parts: what each token of the continuations is scored by, one continuation after the other
        for row, each in zip(rows, hidden, strict=True):
            begin = sum(map(len, parts))
            parts.append(each[: len(row.tokens) + 1])
            for place, continuation in row.asked:
                asked.append((place, continuation))
                places += range(begin, begin + len(continuation))
        of, tokens = torch.tensor(places), torch.tensor([token for _, continuation in asked for token in continuation])
        logarithms, likeliest = torch.empty(len(of), dtype=torch.float64), torch.empty(len(of), dtype=torch.bool)
        at_once = max(1, _logits_at_once // self.model.options["vocabulary"])
        for number, part in enumerate(torch.cat(parts).split(at_once)):
            known = torch.log_softmax(self.model.unembed(part).float(), -1).cpu()
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
        with tqdm.tqdm(total=len(requests), desc="Generated texts", disable=disable_tqdm or _shows_no_progress()) as progress:
            for places in alike.values():
                options = self._generation_options(requests[places[0]].args[1])
                most = self.max_length - options["length"]
                for part in batches(places, _prompts_at_once):
                    prompts = [torch.tensor(self._prompt(requests[place].args[0])[-most:]) for place in part]
                    made = self.model.generate(prompts, batch=self.batch_size, seed=self.seed + part[0], **options)
                    for place, text in zip(part, made, strict=True):
                        texts[place] = text.text
                    progress.update(len(part))
        return texts

    def _generation_options(self, given: dict[str, Any]) -> dict[str, Any]:
        """Of ``model.generate``."""
        given = {name: value for name, value in given.items() if value is not None}
        named = any(name in given for name in ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"))
        wanted = dict(normalize_gen_kwargs(given, _default_generated if named else min(_default_generated, self.max_length // 2)))
        length, until, draws = wanted.pop("max_gen_toks"), wanted.pop("until"), wanted.pop("do_sample")
        if not 1 <= length < self.max_length:
            raise ValueError(f"max_gen_toks: expected 1 to {self.max_length - 1}, below the context of the model, got {length}")
        options = {
            "length": length,
            "end_token": -1 if self._end >= self.model.options["vocabulary"] else self._end,
            "stop": [text for text in until if text],
            "temperature": float(wanted.pop("temperature", 1.0)) if draws else 0.0,
        }
        for name in ("top_k", "top_p", "min_p", "repetition_penalty"):
            if name in wanted:
                options[name] = wanted.pop(name)
        if wanted.get("num_beams") == 1:
            del wanted["num_beams"]
        if wanted:
            known = "until, max_gen_toks, do_sample, temperature, top_k, top_p, min_p, repetition_penalty"
            raise ValueError(f"generation_kwargs: expected {known}, got {next(iter(wanted))}")
        return options


def _shows_no_progress() -> bool:
    """As the executable says where standard error is no terminal; lm-eval itself overrules the environment."""
    return bool(os.environ.get("TQDM_DISABLE"))
