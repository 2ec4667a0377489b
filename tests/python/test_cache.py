"""A cache as PyTorch sees it: torch.func, vmap, a compiler, and the memory that it takes."""

import pathlib
import resource

import pytest
import torch

import cogwheel


def ragged_cache() -> tuple[cogwheel.KeyValueCache, torch.Tensor, torch.Tensor]:
    """Entries of 3 and 5 tokens; queries in float64, of which the first entry has one."""
    generator = torch.Generator().manual_seed(4)
    key, value, query = (torch.randn(2, heads, 5, 16, generator=generator).double() for heads in (2, 2, 4))
    cache = cogwheel.KeyValueCache(2, 2, 12, 16, dtype=torch.float64)
    cache.append(key, value, torch.tensor([3, 5]))
    return cache, query[:, :, :2], torch.tensor([1, 2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_keys_are_read_without_data_too(dtype):
    """By a compiler, whose tensors have none, and by vmap."""
    cache = cogwheel.KeyValueCache(2, 2, 100, 16, dtype=dtype)
    key = torch.randn(2, 2, 70, 16).to(dtype)
    cache.append(key, key)
    sums = torch.compile(lambda x: cache.key.sum(-1) + x, backend="aot_eager")(torch.ones(1, dtype=dtype))
    assert torch.equal(sums, key.sum(-1) + 1)
    panels = cache._used("key")[0]
    pair = torch.func.vmap(lambda given: torch.ops.cogwheel.cache_keys(given, 70))(torch.stack([panels, 2 * panels]))
    assert torch.equal(pair, torch.stack([key, 2 * key]))


def test_torch_func_sees_through_a_cache():
    """test_pairwise_options.py compares the derivatives themselves with a reference."""
    cache, query, counts = ragged_cache()
    sink = torch.tensor([0.5, -0.5, 0.0, 1.0], dtype=torch.float64)

    def loss(query, sink):
        out = cache.attend(query, "softmax_off_by_one", query_lengths=counts, sink=sink)
        return out[0, :, :1].square().sum() + out[1].square().sum()

    leaves = [query.clone().requires_grad_(), sink.clone().requires_grad_()]
    gradients = torch.autograd.grad(loss(*leaves), leaves, create_graph=True)
    for actual, expected in zip(torch.func.grad(loss, argnums=(0, 1))(query, sink), gradients):
        torch.testing.assert_close(actual, expected)
    hessian = torch.func.hessian(loss, argnums=1)(query, sink)
    rows = [torch.autograd.grad(each, leaves[1], retain_graph=True)[0] for each in gradients[1]]
    torch.testing.assert_close(hessian, torch.stack(rows))
    queries = torch.stack([query, 2 * query, -query])
    for function in (loss, torch.func.grad(loss)):
        torch.testing.assert_close(
            torch.func.vmap(function, (0, None))(queries, sink), torch.stack([function(each, sink) for each in queries])
        )


def test_caches_of_a_batch_give_what_a_loop_gives():
    """vmap over the tensors of a cache, whose lengths cannot be read then."""
    generator = torch.Generator().manual_seed(5)
    key, value, query = (torch.randn(3, 2, 1, n, 16, generator=generator) for n in (6, 6, 2))
    lengths = torch.tensor([[3, 4], [6, 2], [5, 5]])
    attend = lambda *tensors: torch.ops.cogwheel.cache_attend(*tensors, None, "cog", parameters=[], parameter_names=[])
    every = (query, key, value, lengths)
    torch.testing.assert_close(torch.func.vmap(attend)(*every), torch.stack([attend(*each) for each in zip(*every)]))
    # Keys as a cache keeps them, and queries of several texts over one cache; with a gradient, keys are read in rows.
    caches = [torch.ops.cogwheel.make_cache(2, 1, 6, 16, None, None, torch.float32) for _ in range(3)]
    for cache, *appended in zip(caches, key, value, lengths):
        torch.ops.cogwheel.cache_append(*cache, *appended)
    kept = [query, *(torch.stack(parts) for parts in zip(*caches))]
    expected = torch.stack([attend(*each) for each in zip(*every)])
    torch.testing.assert_close(torch.func.vmap(attend)(*kept), expected)
    last = [part.movedim(0, -1) for part in kept]
    torch.testing.assert_close(torch.func.vmap(attend, -1)(*last), expected)
    one = torch.func.vmap(lambda each: attend(each, *caches[0]))(query)
    torch.testing.assert_close(one, torch.stack([attend(each, *caches[0]) for each in query]))
    gradient = torch.func.grad(lambda *tensors: attend(*tensors).square().sum())
    torch.testing.assert_close(gradient(*(part[0] for part in kept)), gradient(*(part[0] for part in every)))


@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
def test_attending_compiles_with_a_gradient(biased):
    cache, query, counts = ragged_cache()
    bias = torch.randn(4, 2, 5, dtype=torch.float64) if biased else None

    def step(query):
        return cache.attend(query, "cog", query_lengths=counts, bias=bias)[:, :, :1].sin()

    results = []
    for run in (step, torch.compile(step, fullgraph=True, backend="aot_eager")):
        leaf = query.clone().requires_grad_()
        out = run(leaf)
        results.append((out, *torch.autograd.grad(out.sum(), leaf)))
    for eager, compiled in zip(*results):
        torch.testing.assert_close(compiled, eager)
    if biased:  # the graph was made for five keys
        cache.append(torch.ones(2, 2, 1, 16).double(), torch.ones(2, 2, 1, 16).double())
        with pytest.raises(ValueError, match=r"bias: expected a last size of 1 or 6 \(the longest entry\), got 5"):
            torch.compile(step, fullgraph=True, backend="aot_eager")(query.clone().requires_grad_())
    torch.compiler.reset()


def test_a_cache_is_made_under_a_compiler():
    def fill(key):
        cache = cogwheel.KeyValueCache(1, 1, 8, 16)
        cache.append(key, key)
        return cache.attend(key), cache.fork([0, 0]).lengths

    key = torch.randn(1, 1, 3, 16, generator=torch.Generator().manual_seed(0))
    for eager, compiled in zip(fill(key), torch.compile(fill, fullgraph=True, backend="aot_eager")(key)):
        assert torch.equal(eager, compiled)
    torch.compiler.reset()


def resident_bytes() -> int:
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_memory_is_used_only_where_written():
    """Of 1.6 GB that two heads may hold, and of each fork. A page may be as large as 2 MiB."""
    before = resident_bytes()
    cache = cogwheel.KeyValueCache(1, 2, 1_600_000, 64)
    assert resident_bytes() - before < 2**24
    cache.append(torch.ones(1, 2, 100, 64), torch.ones(1, 2, 100, 64))
    forks = [cache.fork([0, 0]) for _ in range(2)]
    taken = resident_bytes() - before
    assert taken < 2**26, taken
    assert torch.equal(forks[1].key, torch.ones(2, 2, 100, 64))
    assert torch.equal(cache.attend(torch.ones(1, 2, 1, 64)), torch.ones(1, 2, 1, 64))


def test_memory_that_no_machine_has_is_refused_in_one_line():
    with pytest.raises(RuntimeError, match=r"^cache: memory: expected \d+ bytes, got [\w ]+$"):
        cogwheel.KeyValueCache(1, 2**20, 2**24, 64)
