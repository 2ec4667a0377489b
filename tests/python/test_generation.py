"""Texts that language models continue: on the command line and from Python, the same."""

import json
import os
import signal
import subprocess
import threading

import pytest
import torch

import cogwheel

CONFIG = """
[model]
layers = 2
heads = 2
width = 32
context = 24
mechanism = "{mechanism}"
position = "{position}"
[training]
steps = 30
batch = 8
learning_rate = 0.01
warm_up = 2
"""


@pytest.fixture(scope="module")
def program(cogwheel_in, tmp_path_factory):
    folder = tmp_path_factory.mktemp("generation")
    (folder / "text.txt").write_text("the cat sat on the mat, naïve as ever. 你好 " * 120)
    run = cogwheel_in(folder)
    for name, mechanism, position, tokenizer in (
        ("turned", "cog", "rotary", "character"),
        ("hybrid", "gla+softmax", "none", "byte"),
        ("learned", "softmax", "learned", "character"),
        ("pieces", "softmax", "rotary", "bpe"),
    ):
        (folder / f"{name}.toml").write_text(CONFIG.format(mechanism=mechanism, position=position))
        sets = [f"data.tokenizer={tokenizer}", *(["data.vocabulary=280"] if tokenizer == "bpe" else [])]
        done = run("train", f"{name}.toml", "--text", "text.txt", "--set", *sets, "--out", name)
        assert done.returncode == 0, done.stderr
    return run


def sampled(program, *words):
    done = program("sample", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(program, *words):
    return [json.loads(line) for line in sampled(program, *words, "--json").splitlines()]


@pytest.mark.parametrize("run", ["turned", "hybrid", "pieces"])
def test_python_and_the_command_make_the_same_texts(program, run):
    (program.folder / "prompts.txt").write_text("the c\n\nnaïve as ever. the cat sat on the mat\n")
    words = ["--prompts", "prompts.txt", "--count", 3, "--length", 30, "--seed", 7, "--top-p", 0.9, "--repetition-penalty", 1.2]
    words += ["--min-p", 0.01, "--top-k", 12, "--temperature", 1.3, "--stop", "at", "--stop", "好", "--log-probabilities", 2]
    told = objects(program, run, *words, "--batch", 4)
    model = cogwheel.load(program.folder / run)
    prompts = ["the c", "", "naïve as ever. the cat sat on the mat"]
    options = {"length": 30, "seed": 7, "top_p": 0.9, "repetition_penalty": 1.2, "min_p": 0.01, "top_k": 12, "temperature": 1.3, "log_probabilities": 2}
    made = model.generate(prompts, count=3, stop=["at", "好"], batch=9, **options)
    assert len(made) == len(told) == 9 and "stop" in {each.end for each in made}
    for number, (each, line) in enumerate(zip(made, told, strict=True)):
        assert (line["number"], line["prompt"]) == (number, prompts[number // 3])
        assert (each.text, each.end, each.tokens.tolist()) == (line["text"], line["end"], line["tokens"])
        assert each.log_probabilities.tolist() == line["log_probabilities"]
        assert [[list(pair) for pair in place] for place in each.likeliest] == line["likeliest"]
        assert "at" not in each.text and "好" not in each.text
    # Alone, with another number, another text; with the same, the same.
    alone = model.generate(prompts[0], count=1, stop=["at", "好"], **options)[0]
    assert torch.equal(alone.tokens, made[0].tokens) and alone.text == made[0].text


@pytest.mark.parametrize("options", [{"length": 1_000_000}, {"length": 15, "beam": 2}])
def test_ctrl_c_ends_a_long_call(program, options):
    model = cogwheel.load(program.folder / "hybrid")
    prompt = model.tokens("the c")
    before = model.generate(prompt, length=5)[0]
    timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
    with pytest.raises(KeyboardInterrupt):  # of texts that would take many minutes
        timer.start()
        model.generate([prompt] * 20_000, **options)
    timer.join()
    assert torch.equal(model.generate(prompt, length=5)[0].tokens, before.tokens)


def test_a_line_is_written_as_its_text_ends(program, cogwheel_executable):
    command = [cogwheel_executable, "sample", "hybrid", "--count", 40, "--batch", 1, "--length", 200, "--json"]
    process = subprocess.Popen(list(map(str, command)), cwd=program.folder, stdout=subprocess.PIPE, text=True)
    assert json.loads(process.stdout.readline())["number"] == 0
    process.kill()  # long before the last of forty
    assert len(process.communicate()[0].splitlines()) < 39


def test_a_conversation_ends_at_sigterm(program, cogwheel_executable):
    command = [str(cogwheel_executable), "sample", "turned", "--interactive", "--length", "3"]
    process = subprocess.Popen(command, cwd=program.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write("the c\n")
    process.stdin.flush()
    assert process.stdout.read(1)  # it answers, and waits for the next line
    process.terminate()
    assert process.wait(timeout=60) == -signal.SIGTERM


def test_the_end_of_a_document_ends_a_text(program):
    model = cogwheel.load(program.folder / "pieces")
    end = len(model.token_embedding) - 1  # <|endoftext|>, which this text has not taught the model to avoid
    told = objects(program, "pieces", "--prompt", "the ", "--length", 60, "--count", 12, "--temperature", 4)
    made = model.generate("the ", length=60, count=12, temperature=4)
    assert [each.tokens.tolist() for each in made] == [line["tokens"] for line in told]
    assert [each.end for each in made] == [line["end"] for line in told] and {each.end for each in made} >= {"end_token"}
    assert all(end not in each.tokens for each in made)
    assert any(end in each.tokens for each in model.generate("the ", length=60, count=12, temperature=4, end_token=-1))
    # A text without a prompt begins as one after the end of another.
    assert torch.equal(model.generate("", length=9)[0].tokens, model.generate(torch.tensor([end]), length=9)[0].tokens)


def test_log_probabilities_are_those_of_a_pass(program):
    model = cogwheel.load(program.folder / "turned")
    prompt = model.tokens("the cat")
    made = model.generate(prompt, length=10, temperature=0.7, log_probabilities=3)[0]
    whole = torch.cat([prompt, made.tokens])
    logs = model(whole[None])[0].double().log_softmax(-1)[len(prompt) - 1 : -1]
    torch.testing.assert_close(made.log_probabilities, logs.gather(1, made.tokens[:, None])[:, 0], atol=1e-4, rtol=0)
    best = logs.topk(3)
    assert [[token for token, _ in place] for place in made.likeliest] == best.indices.tolist()


def test_text_is_whole_characters(program):
    for seed in range(4):
        done = sampled(program, "hybrid", "--prompt", "你", "--length", 40, "--temperature", 3, "--seed", seed)
        done.encode()
        assert done.startswith("你") and done.endswith("\n")


def test_several_samples_are_told_apart_and_one_is_as_it_comes(program):
    done = sampled(program, "turned", "--prompt", "the ", "--length", 5, "--count", 3)
    lines = done.splitlines()
    assert [line for line in lines if line.startswith("===")] == [f"=== {number} of 3 ===" for number in (1, 2, 3)]
    alone = sampled(program, "turned", "--prompt", "the ", "--length", 5)
    assert "===" not in alone and alone.rstrip("\n") in done


@pytest.mark.parametrize("run,weights,cache", [("turned", "int8", "int8"), ("pieces", "bf16", None), ("hybrid", "int8", "bf16"), ("learned", None, "int8")])
def test_numbers_of_fewer_bits_make_the_same_texts_in_python(program, run, weights, cache):
    words = [word for name, value in (("--weights", weights), ("--cache", cache)) if value for word in (name, value)]
    told = objects(program, run, "--prompt", "the c", "--length", 18, "--count", 2, "--log-probabilities", 0, *words)
    model = cogwheel.load(program.folder / run)
    made = model.generate("the c", length=18, count=2, log_probabilities=0, weights=weights, cache=cache)
    plain = model.generate("the c", length=18, count=2, log_probabilities=0)
    for each, line, other in zip(made, told, plain, strict=True):
        assert (each.tokens.tolist(), each.log_probabilities.tolist()) == (line["tokens"], line["log_probabilities"])
        assert not torch.equal(each.log_probabilities[:1], other.log_probabilities[:1])


def rounded(weight, kind):
    """What a matrix stands for once it is kept with a scale for each row, or as bfloat16."""
    if kind == "bf16":
        return weight.bfloat16().double()
    scale = weight.double().abs().amax(1, keepdim=True) / 127
    return (weight.double() / scale).round() * scale


@torch.no_grad()
@pytest.mark.parametrize("kind", ["bf16", "int8"])
def test_evaluate_says_what_they_cost(program, kind):
    done = program("evaluate", "pieces", "--weights", kind, "--cache", kind)
    assert done.returncode == 0, done.stderr
    both = json.loads((program.folder / "pieces/evaluation.json").read_text())["narrowing"]
    assert f"With {kind} weights and {kind} keys and values, on {both['tokens']} of these: loss {both['kept_loss']:.4f} instead" in done.stdout
    assert "another likeliest next token" in (program.folder / "pieces/evaluation.html").read_text()
    assert both["flipped_scores"] > 0 and both["flipped_weights"] is None and 0 <= both["other_next"] < 0.5
    assert program("evaluate", "pieces", "--weights", kind).returncode == 0
    found = json.loads((program.folder / "pieces/evaluation.json").read_text())
    cost = found["narrowing"]
    # All that is held out is one part here, so that the loss is the one that is measured.
    assert cost["loss"] == pytest.approx(found["measures"]["held_out_loss"], abs=1e-5) and cost["tokens"] == found["evaluated_tokens"]
    assert cost["loss"] == both["loss"] and cost["kept_loss"] != both["kept_loss"]
    model = cogwheel.load(program.folder / "pieces")
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            parameter.copy_(rounded(parameter, kind))
    made = model.generate("the c", length=12, log_probabilities=0)[0]
    plain = cogwheel.load(program.folder / "pieces").generate("the c", length=12, log_probabilities=0, weights=kind)[0]
    assert torch.equal(made.tokens, plain.tokens)
    torch.testing.assert_close(made.log_probabilities, plain.log_probabilities, atol=1e-4, rtol=0)


def test_a_conversation_keeps_the_text(program):
    done = program("sample", "turned", "--interactive", "--length", 4, "--temperature", 0, input="the c\nQ\nat\n")
    assert done.returncode == 0 and "expected" in done.stderr and done.stderr.count("\n") == 1  # "Q" is not in the vocabulary
    first, second = done.stdout.splitlines()
    model = cogwheel.load(program.folder / "turned")
    assert first == model.generate("the c", length=4, temperature=0)[0].text
    assert second == model.generate("the c" + first + "at", length=4, temperature=0)[0].text


class Reference:
    """The keys and values of a model of softmax or Cog in float64, with unrotated keys that are turned anew at every token."""

    def __init__(self, model, sink):
        self.model, self.sink, self.options = model.double(), sink, model.options
        self.caches = [[] for _ in model.layers]

    def turned(self, x, place):
        """x [heads, D], interleaved components."""
        width = x.shape[-1]
        angles = place * self.options["rotary_base"] ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).flatten(-2)

    def token(self, token):
        model, options = self.model, self.options
        heads, x = options["heads"], model.token_embedding[token]
        for layer, cache in zip(model.layers, self.caches, strict=True):
            context = options["context"]
            if len(cache) == context:
                del cache[self.sink : self.sink + (context - self.sink) // 4]
            query, key, value = layer.attention.query_key_value(layer.attention_norm(x)).view(3, heads, -1)
            cache.append((key, value))
            keys = torch.stack([self.turned(each, place) for place, (each, _) in enumerate(cache)], 1)
            scores = (keys @ self.turned(query, len(cache) - 1)[..., None])[..., 0] / keys.shape[-1] ** 0.5
            exponent = scores.abs()
            weights = scores.sign() * (exponent - exponent.amax(-1, keepdim=True)).exp()
            weights = weights / weights.abs().sum(-1, keepdim=True)
            attended = (weights[:, None] @ torch.stack([each for _, each in cache], 1))[:, 0].flatten()
            x = x + layer.attention.output(attended)
            x = x + layer.feed_forward(layer.feed_forward_norm(x))
        return model.final_norm(x) @ model.token_embedding.T


@torch.no_grad()
def test_past_the_context_keys_are_those_at_their_new_places(program):
    """Up to sixteen contexts, against unrotated keys that are turned to where they stand."""
    model = cogwheel.load(program.folder / "turned")
    prompt = model.tokens("the cat sat on the mat, naïve as ever.")  # longer than the context
    for sink in (0, 4):
        made = model.generate(prompt, length=(16 if sink else 4) * 24, sink=sink, log_probabilities=0, seed=sink)[0]
        reference = Reference(cogwheel.load(program.folder / "turned"), sink)
        logits = [reference.token(token) for token in torch.cat([prompt, made.tokens]).tolist()]
        logs = torch.stack(logits).log_softmax(-1)[len(prompt) - 1 : -1].gather(1, made.tokens[:, None])[:, 0]
        # In float32 a score near 0 may change its sign.
        assert (made.log_probabilities - logs).abs().median() < 1e-4
        assert (made.log_probabilities - logs).abs().mean() < 1e-2


@torch.no_grad()
def test_evaluate_measures_texts_past_the_context(program):
    done = program("evaluate", "turned", "--sink", 4)
    assert done.returncode == 0, done.stderr
    found = json.loads((program.folder / "turned/evaluation.json").read_text())["narrowing"]
    assert found["sink"] == 4 and "loss" not in found and len(found["past_context"]) == 16
    assert f"Of texts of 16 contexts with sink 4: loss {found['past_context'][0]:.4f} in the first context, {found['past_context'][-1]:.4f} in the last." in done.stdout
    tokens = cogwheel.load(program.folder / "turned").tokens((program.folder / "text.txt").read_text())
    held_out = tokens[len(tokens) * 9 // 10 :]
    assert 1 <= (len(held_out) - 1) // (16 * 24) < 2  # one text of sixteen contexts
    reference = Reference(cogwheel.load(program.folder / "turned"), 4)
    logits = torch.stack([reference.token(token) for token in held_out[: 16 * 24].tolist()])
    losses = torch.nn.functional.cross_entropy(logits, held_out[1 : 16 * 24 + 1], reduction="none").view(16, 24).mean(1)
    torch.testing.assert_close(torch.tensor(found["past_context"]).double(), losses, atol=2e-3, rtol=0)
    for words, said in (
        (["turned", "--sink", 24], "sink: expected fewer than the context of 24, got 24"),
        (["learned", "--sink", 2], "sink: expected a model whose positions are rotary or none, got learned positions"),
        (["turned", "--cache", "fp32"], "evaluate: --cache: expected bf16 or int8, got fp32"),
    ):
        refused = program("evaluate", *words)
        assert refused.returncode == 2 and refused.stderr == f"cogwheel: {said}\n", refused.stderr


def test_a_state_just_goes_on(program):
    model = cogwheel.load(program.folder / "hybrid")
    made = model.generate("the cat", length=80, sink=4, count=2)
    assert all(len(each.tokens) == 80 for each in made)


@pytest.mark.parametrize(
    "words,said",
    [
        (["turned", "--prompt", "Q"], "--prompt: expected"),
        (["turned", "--prompts", "empty.txt"], "empty.txt: expected a prompt at least, got none"),
        (["turned", "--prompts", "bad.jsonl"], 'bad.jsonl, line 2: expected an object with "prompt", a text, got another'),
        (["turned", "--beam", "3", "--length", "20", "--prompt", "the cat sat"], "prompt: expected at most 5 tokens"),
        (["learned", "--sink", "4"], "sink: expected a model whose positions are rotary or none, got learned positions"),
        (["turned", "--sink", "24"], "sink: expected fewer than the context of 24, got 24"),
        (["turned", "--top-p", "2"], "--top-p: expected at most 1, got 2"),
        (["turned", "--stop", ""], "stop: expected a text, got an empty one"),
        (["turned", "--log-probabilities", "2"], "sample: --log-probabilities: expected --json beside it, got none"),
        (["turned", "--weights", "int4"], "sample: --weights: expected bf16 or int8, got int4"),
        (["turned", "--cache", "fp32"], "sample: --cache: expected bf16 or int8, got fp32"),
        (["turned", "--interactive", "--count", "2"], "sample: --count: expected none beside --interactive, got one"),
    ],
)
def test_refusals_are_one_line(program, words, said):
    (program.folder / "empty.txt").write_text("")
    (program.folder / "bad.jsonl").write_text('{"prompt": "the"}\n{"text": "the"}\n')
    done = program("sample", *words)
    assert done.returncode != 0 and done.stdout == "" and said in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_python_refuses_in_one_line(program):
    model = cogwheel.load(program.folder / "turned")
    new = cogwheel.nn.LanguageModel(1, 2, 16, 30, context=8)
    for call, said in (
        (lambda: model.generate([]), "prompts: expected at least one, got none"),
        (lambda: model.generate("the", top_p=2), "top-p: expected"),
        (lambda: model.generate(torch.tensor([1, 500])), "prompt: expected tokens 0 to"),
        (lambda: model.generate(torch.tensor([[1]])), "prompts: expected texts, or tokens int64"),
        (lambda: model.generate("the", seed=-1), "seed: expected a whole number from 0 to 18446744073709551615, got -1"),
        (lambda: model.generate("the", temperature=float("nan")), "temperature: expected a finite number, got nan"),
        (lambda: model.generate("the", batch=2000), "batch: expected at most 1024, got 2000"),
        (lambda: model.generate("the", end_token=10**6), "end token: expected at most"),
        (lambda: model.generate("the", weights="int4"), "weights: expected bf16 or int8, got 'int4'"),
        (lambda: cogwheel.nn.LanguageModel(1, 2, 16, 30, context=8, mechanism="gla").generate(torch.tensor([1]), cache="int8"), "cache: expected a model in which a layer keeps keys, got gla"),
        (lambda: new.double().generate(torch.tensor([1]), weights="bf16"), "weights: expected a model in float32, got Double"),
        (lambda: model.generate("the", beam=2, sink=2), "sink: expected none beside beams, got 2"),
        (lambda: new.generate(torch.tensor([1]), stop="x"), "stop: expected a model with a tokenizer, got one without"),
    ):
        with pytest.raises(ValueError, match=said) as error:
            call()
        assert "\n" not in str(error.value)
    with pytest.raises(TypeError, match="prompts: expected texts, or tensors of tokens, got int"):
        model.generate([3])
    for options in ({"length": 2.5}, {"top_p": "a"}, {"stop": [3]}):
        with pytest.raises(TypeError, match=f"{next(iter(options))}: expected"):
            model.generate("the", **options)
    made = new.generate(torch.tensor([1, 2]), length=12, count=2)
    assert [each.text for each in made] == ["", ""] and all(len(each.tokens) == 12 for each in made)


@torch.no_grad()
def test_beams_find_what_is_at_least_as_probable_as_the_greedy_text(program):
    model = cogwheel.load(program.folder / "turned")
    prompt = model.tokens("the ")

    def log_p(tokens):
        logs = model(torch.cat([prompt, tokens])[None])[0].double().log_softmax(-1)[len(prompt) - 1 : -1]
        return float(logs.gather(1, tokens[:, None]).sum())

    best, greedy = model.generate("the ", length=12, beam=6)[0], model.generate("the ", length=12, temperature=0)[0]
    assert log_p(best.tokens) >= log_p(greedy.tokens) - 1e-4
    assert sampled(program, "turned", "--prompt", "the ", "--length", 12, "--beam", 6) == "the " + best.text + "\n"
