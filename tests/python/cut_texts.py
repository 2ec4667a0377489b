"""One rank of several that cut a text: what `cogwheel.distributed` makes of the parts, beside what one rank makes of the whole.

    python cut_texts.py RANK RANKS FOLDER

Ranks meet in FOLDER. Each writes ``rank.json`` there: for every case the lines that say what differs, none where nothing does.
"""

import json
import os
import pathlib
import sys
import traceback

import torch
import torch.distributed as dist
from recurrent_problem import LAWS, Problem

import cogwheel
from cogwheel import distributed

BATCH, HEADS, KEY_HEADS, TOKENS, KEYS, WIDTH, VALUE_WIDTH = 2, 8, 4, 16, 24, 8, 6
LAYOUTS = ("zigzag", "contiguous")
# Which dimension of an option has a row for each query.
ROWS = {"bias": -2, "energy_bias": -2, "ranges": 2, "local_centers": 2, "lam": -1}


def drawn(*size, seed=0):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed + sum(size)), dtype=torch.float64)


def hiding(keys=TOKENS):
    bias = drawn(HEADS, TOKENS, keys)
    bias[:, 1, 2] = bias[1, :, 4] = -torch.inf
    return bias


def ranges():
    begin = torch.randint(0, TOKENS, (BATCH, HEADS, TOKENS), generator=torch.Generator().manual_seed(4))
    return torch.stack([begin, (begin + 5).clamp(max=TOKENS)], -1)


# For each option of attention a value that has an effect, and some of them together.
OPTIONS = {
    "nothing": {},
    "causal": {"causal": True},
    "scale": {"scale": 0.9},
    "softcap": {"softcap": 1.5, "causal": True},
    "window": {"causal": True, "window": 3},
    "key_lengths": {"key_lengths": torch.tensor([11, 0]), "causal": True},
    "first_positions": {"causal": True, "first_positions": torch.tensor([3, -4])},
    "cu_seqlens": {"cu_seqlens": torch.tensor([0, 2, 13, 13, 16]), "causal": True, "window": 5},
    "cu_seqlens with alibi": {"cu_seqlens": torch.tensor([0, 5, 16]), "alibi": drawn(HEADS).abs()},
    "ranges": {"ranges": ranges()},
    "ranges of all heads": {"ranges": ranges()[:1, :1], "alibi": drawn(HEADS).abs()},
    "bias": {"bias": hiding(), "causal": True},
    "bias of all rows": {"bias": drawn(HEADS, 1, TOKENS)},
    "bias of all heads": {"bias": drawn(TOKENS, TOKENS)},
    "energy_bias": {"energy_bias": hiding()},
    "alibi": {"alibi": drawn(HEADS).abs(), "causal": True},
    "alibi without a mask": {"alibi": drawn(HEADS).abs()},
    "local_radius": {"local_radius": 2.0},
    "local_radius causal": {"local_radius": 2.0, "causal": True},
    "local_centers": {"local_radius": 2.0, "local_centers": 8 + 3 * drawn(BATCH, HEADS, TOKENS)},
    "dropout": {"dropout": 0.4, "seed": 5},
    "seed": {"dropout": 0.4, "seed": torch.tensor(6), "causal": True, "window": 9},
    "score": {"score": "cosine"},
    "score_weight": {"score": "additive", "score_weight": drawn(HEADS, WIDTH)},
    "general score": {"score": "general", "score_weight": drawn(HEADS, WIDTH, WIDTH), "causal": True},
    "score_projection": {"score": "concat", "score_weight": drawn(HEADS, 9), "score_projection": drawn(HEADS, 9, 2 * WIDTH)},
    "more keys": {"causal": True, "alibi": drawn(HEADS).abs(), "dropout": 0.2, "seed": 3},
}  # fmt: skip


def tensors_of(case, sub_heads=1):
    batch = 1 if "cu_seqlens" in case else BATCH
    keys = KEYS if case == "more keys" else TOKENS
    return {
        "query": drawn(batch, sub_heads * HEADS, TOKENS, WIDTH, seed=1),
        "key": drawn(batch, sub_heads * KEY_HEADS, keys, WIDTH, seed=2),
        "value": drawn(batch, KEY_HEADS, keys, VALUE_WIDTH, seed=3),
    }


# Mechanisms of attention with the arguments that they need, of HEADS.
PARAMETERS = {
    "lam": lambda heads: torch.sigmoid(drawn(BATCH, HEADS, TOKENS)),
    "beta": lambda heads: drawn(heads).abs(),
    "gamma": lambda heads: 1 + drawn(heads).abs(),
    "coefficients": lambda heads: drawn(heads, 3) / 10,
    "sink": lambda heads: drawn(heads),
    "shift": lambda heads: drawn(heads),
}


def mechanisms():
    for entry in cogwheel.mechanisms():
        if entry["family"] == "recurrent" or entry["level"] not in ("operator", "dense"):
            continue
        sub_heads = 2 if entry["name"].startswith("differential") else 1
        parameters = {name: PARAMETERS[name](sub_heads * HEADS) for name in entry["parameters"]}
        yield entry["name"], entry["level"], sub_heads, parameters


class Rank:
    def __init__(self, rank, ranks):
        self.rank, self.ranks = rank, ranks
        self.problems = {}

    def expect(self, problems, what, found, expected, tolerance):
        if found is None:
            found = torch.zeros_like(expected)
        scale = max(float(expected.abs().nan_to_num().max()) if expected.numel() else 0.0, 1.0)
        if found.shape != expected.shape:
            problems.append(f"{what}: sizes {tuple(found.shape)}, expected {tuple(expected.shape)}")
        elif not torch.allclose(found.double(), expected.double(), rtol=0, atol=tolerance * scale, equal_nan=True):
            problems.append(f"{what}: off by {float((found.double() - expected.double()).abs().max()):.3g}")

    def case(self, name, check):
        """Of one case the lines of all its checks; an exception is one too."""
        problems = self.problems.setdefault(name, [])
        try:
            check(problems)
        except Exception:
            problems.append(traceback.format_exc())

    def attention(self, case, mechanism, tensors, options, method, layout, dtype=torch.float64, tolerance=1e-11):
        names = [*tensors]
        tensors = {name: each.to(dtype) for name, each in tensors.items()}
        options = {name: each.to(dtype) if isinstance(each, torch.Tensor) and each.is_floating_point() and name != "alibi" else each for name, each in options.items()}  # fmt: skip

        def check(problems):
            whole = {**tensors, **options}
            learned = [name for name, each in whole.items() if isinstance(each, torch.Tensor) and each.is_floating_point() and name != "alibi"]
            weights = drawn(*cogwheel.attention(*tensors.values(), mechanism, **options).shape, seed=9).to(dtype)

            def gradients(output_of, weight):
                leaves = {name: whole[name].clone().requires_grad_() for name in learned}
                given = whole | leaves
                output = output_of([given[name] for name in names], {name: given[name] for name in options})
                found = torch.autograd.grad((output * weight).sum(), list(leaves.values()), allow_unused=True)
                return output.detach(), {name: torch.zeros_like(whole[name]) if each is None else each for name, each in zip(learned, found)}

            def of_part(tensors_, options_):
                own = [distributed.shard(each, 2, layout) for each in tensors_]
                cut = {
                    name: distributed.shard(each, ROWS[name], layout)
                    if name in ROWS and each.dim() >= (2 if name != "lam" else 3) and each.shape[ROWS[name]] == TOKENS
                    else each
                    for name, each in options_.items()
                }
                return distributed.attention(*own, mechanism, layout=layout, method=method, **cut)

            expected, expected_gradients = gradients(lambda t, o: cogwheel.attention(*t, mechanism, **o), weights)
            part = distributed.shard(weights, 2, layout)
            found, own_gradients = gradients(of_part, part)
            again, again_gradients = gradients(of_part, part)
            if not torch.equal(found, again) or not all(torch.equal(own_gradients[name], again_gradients[name]) for name in learned):
                problems.append("other bits in a second call")
            rows = distributed.shard(expected, 2, layout)
            self.expect(problems, "output", found, rows, tolerance)
            projects = options.get("score") in ("general", "concat")  # by products of fewer rows
            if dtype == torch.float64 and method == "gather" and not projects and not torch.equal(found, rows):
                problems.append("output: other bits than those of one rank")
            for name in learned:
                wide = own_gradients[name].double().contiguous()
                dist.all_reduce(wide)
                self.expect(problems, f"gradient of {name}", wide, expected_gradients[name], tolerance)

        self.case(f"{case}, {method}, {layout}", check)

    def statistics(self, case, mechanism, tensors, options, method, layout):
        def check(problems):
            _, expected = cogwheel.attention_statistics(*tensors.values(), mechanism, **options)
            own = [distributed.shard(each, 2, layout) for each in tensors.values()]
            cut = {name: distributed.shard(each, -1, layout) if name == "lam" else each for name, each in options.items()}
            _, found = distributed.attention_statistics(*own, mechanism, layout=layout, method=method, **cut)
            for name, right, left in zip(expected._fields, expected, found):
                self.expect(problems, name, left, distributed.shard(right, 2, layout), 1e-9 if name == "kurtosis" else 1e-11)

        self.case(f"statistics of {case}, {method}, {layout}", check)

    def recurrent(self, law, with_state, method, layout, heads=4):
        problem = Problem(law, TOKENS, heads=heads, value_width=6, with_state=with_state)

        def check(problems):
            names = list(problem.inputs)
            weights = {}

            def gradients(call, part):
                leaves = {name: each.clone().requires_grad_() for name, each in problem.inputs.items()}
                made = problem.made(call, leaves)
                total = 0
                for name, each in made.items():
                    if name == "last m":
                        continue
                    if name not in weights:
                        weights[name] = drawn(*each.shape, seed=len(weights))
                    # All ranks have the last state, and the gradient of it is the sum of theirs.
                    weight = weights[name] if not part else distributed.shard(weights[name], 2, layout) if name == "output" else weights[name] / self.ranks
                    total = total + (each * weight).sum()
                found = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
                return {name: each.detach() for name, each in made.items()}, dict(zip(names, found))

            def of_one(query, key, value, name, state, **given):
                return cogwheel.recurrent(query, key, value, name, initial_state=state, return_state=True, **given)

            def of_part(query, key, value, name, state, **given):
                own = [each if each is None else distributed.shard(each, 2, layout) for each in (query, key, value)]
                given = {key: distributed.shard(each, 2, layout) if key in problem.of_tokens() else each for key, each in given.items()}
                return distributed.recurrent(*own, name, initial_state=state, return_state=True, layout=layout, method=method, **given)

            expected, expected_gradients = gradients(of_one, False)
            found, own_gradients = gradients(of_part, True)
            again, again_gradients = gradients(of_part, True)
            if not all(torch.equal(found[name], again[name]) for name in found) or not all(torch.equal(own_gradients[name], again_gradients[name]) for name in names):
                problems.append("other bits in a second call")
            for name, right in expected.items():
                self.expect(problems, name, found[name], distributed.shard(right, 2, layout) if name == "output" else right, 1e-11)
            for name in names:
                wide = own_gradients[name].contiguous()
                dist.all_reduce(wide)
                self.expect(problems, f"gradient of {name}", wide, expected_gradients[name], 1e-11)

        self.case(f"{law}{' from a state' if with_state else ''}, {method}, {layout}", check)

    def refused(self, name, call, *expected):
        def check(problems):
            try:
                call()
            except (ValueError, NotImplementedError, TypeError) as error:
                text = str(error)
                problems += [f"{text!r} has no {each!r}" for each in expected if each not in text]
                if "\n" in text:
                    problems.append(f"more than a line: {text!r}")
            else:
                problems.append("not refused")

        self.case(f"refuses {name}", check)

    def all_cases(self):
        for case, options in OPTIONS.items():
            for layout in LAYOUTS:
                for method in ("gather", "heads"):
                    self.attention(case, "cog", tensors_of(case), options, method, layout)
        for position, (name, level, sub_heads, parameters) in enumerate(mechanisms()):
            layout, options = LAYOUTS[position % 2], {"causal": True} | parameters
            if level == "dense":
                options = parameters | ({"causal": True} if "causal" in name else {})
            for method in ("heads",) if level == "dense" else ("gather", "heads"):
                self.attention(name, name, tensors_of(name, sub_heads), options, method, layout)
                self.statistics(name, name, tensors_of(name, sub_heads), options, method, layout)
        for dtype, tolerance in ((torch.float32, 2e-5), (torch.bfloat16, 3e-2)):
            for method in ("gather", "heads"):
                self.attention(f"cog in {dtype}", "cog", tensors_of("causal"), {"causal": True}, method, "zigzag", dtype, tolerance)
        long = {name: drawn(1, 4, 1024, 128, seed=seed) for seed, name in enumerate(("query", "key", "value"))}
        for method in ("gather", "heads"):  # what is too large for one exchange
            self.attention("long texts", "softmax", long, {"causal": True}, method, "zigzag")
        self.attention("long texts in a window", "cog", long, {"causal": True, "window": 300}, "gather", "zigzag")
        few = tensors_of("causal")
        few = {"query": few["query"][:, :3], "key": few["key"][:, :1], "value": few["value"][:, :1]}
        for layout in LAYOUTS:  # heads that ranks do not divide: of one, batch entries follow each other
            self.attention("three heads over one", "cog", few, {"causal": True, "dropout": 0.3, "seed": 8}, "auto", layout)
        for position, law in enumerate(LAWS):
            for method in ("chain", "heads"):
                self.recurrent(law, position % 2 == 0, method, LAYOUTS[position % 2])
                self.recurrent(law, position % 2 == 1, method, LAYOUTS[1 - position % 2])
        self.recurrent("gla", True, "auto", "zigzag", heads=3)
        self.recurrent("deltanet", False, "chain", "zigzag", heads=1)
        self.refusals()

    def refusals(self):
        whole = tensors_of("nothing")
        own = {name: distributed.shard(each, 2) for name, each in whole.items()}
        self.refused("a layout", lambda: distributed.attention(**own, layout="ring"), "layout: expected contiguous or zigzag, got ring")
        self.refused("a method", lambda: distributed.attention(**own, method="ring"), "method: expected auto, heads or gather, got ring")
        self.refused("tokens that do not divide", lambda: distributed.shard(drawn(1, 1, 15, 8), 2), "tokens: expected a multiple of", "got 15")
        odd = {name: each[:, :, :3] for name, each in own.items()}
        self.refused("odd tokens of a rank", lambda: distributed.attention(**odd), "tokens of a rank: expected an even number (layout zigzag), got 3")
        self.refused(
            "gathering of matrices",
            lambda: distributed.attention(**own, mechanism="matrix_exponential", method="gather"),
            "method: expected heads for matrix_exponential",
        )
        three = {name: each[:, :1] for name, each in own.items()}
        self.refused("heads that do not divide", lambda: distributed.attention(**three, method="heads"), "multiples of", "got 1 and 1")
        other = {name: each[:, :, : each.shape[2] - 2 * (self.rank == 1)] for name, each in own.items()}
        self.refused("ranks that differ", lambda: distributed.attention(**other), "tensors of rank 1: expected", "(as rank 0)")
        rows = own["query"][:, :, : own["query"].shape[2] - (self.rank == 1)]
        self.refused("ranks that join other sizes", lambda: distributed.unshard(rows, 2), "tensors of rank 1: expected", "(as rank 0)")
        self.refused("dropout without a seed", lambda: distributed.attention(**own, dropout=0.5), "seed: expected one beside dropout")
        self.refused("an unknown mechanism", lambda: distributed.attention(**own, mechanism="cogg"), "mechanism: expected", "got cogg")
        self.refused("no tokens", lambda: distributed.attention(*(each[:, :, :0] for each in own.values())), "with tokens")
        self.refused(
            "a chain of packed sequences",
            lambda: distributed.recurrent(*(each[:1, :4, :, :6] for each in own.values()), "linear_attention", method="chain", cu_seqlens=torch.tensor([0, 4, TOKENS])),
            "method: expected heads beside cu_seqlens, got chain",
        )

        def second():
            leaves = {name: each.clone().requires_grad_() for name, each in own.items()}
            output = distributed.attention(**leaves, method="gather")
            torch.autograd.grad(output.square().sum(), leaves["query"], create_graph=True)

        self.refused("second derivatives", second, "expected first ones where tokens are cut over ranks, got second ones")


def main():
    rank, ranks, folder = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    torch.set_num_threads(1)
    os.environ["COGWHEEL_SMALL_PIECE"] = "1"  # small texts are cut as large ones are
    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=ranks)
    own = Rank(rank, ranks)
    own.all_cases()
    (folder / f"{rank}.json").write_text(json.dumps(own.problems))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
