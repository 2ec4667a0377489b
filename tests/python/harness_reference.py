"""lm-eval's own model of transformers around a whole pass of a run: what ``cogwheel.harness`` must agree with."""

import torch
import transformers
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import cogwheel


def byte_tokenizer():
    """Of a run that reads bytes: their numbers, and one that no text has for the beginning and the end."""
    # GPT-2's printable characters for bytes: those that print stand for themselves, others for the characters from 256 on.
    printing = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shown = {byte: chr(byte) for byte in printing} | {byte: chr(256 + place) for place, byte in enumerate(byte for byte in range(256) if byte not in printing)}
    vocabulary = {shown[byte]: byte for byte in range(255)} | {"<|endoftext|>": 255}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<|endoftext|>", eos_token="<|endoftext|>", pad_token="<|endoftext|>", clean_up_tokenization_spaces=False)


class WholePass(transformers.PreTrainedModel):
    """Logits of whole texts by the compiled model, without a cache; greedy generation by the same, one text at a time."""

    config_class = transformers.PretrainedConfig

    def __init__(self, run):
        loaded = cogwheel.load(run)
        super().__init__(transformers.PretrainedConfig(max_position_embeddings=loaded.options["context"], vocab_size=loaded.options["vocabulary"]))
        self.made = loaded._compiled.made  # of C++, and no module of Python
        self.anchor = torch.nn.Parameter(torch.zeros(1))

    def forward(self, tokens):
        return transformers.modeling_outputs.CausalLMOutput(logits=self.made.forward({"tokens": tokens}, [], -1))

    def tie_weights(self, *_, **__):
        pass

    @torch.no_grad()
    def generate(self, input_ids, max_length, stopping_criteria, **options):
        assert input_ids.shape[0] == 1 and options["do_sample"] is False
        while input_ids.shape[1] < max_length:
            input_ids = torch.cat([input_ids, self(input_ids).logits[:, -1:].argmax(-1)], 1)
            if bool(torch.as_tensor(stopping_criteria(input_ids, None)).all()):
                break
        return input_ids


def reference_model(run):
    return HFLM(pretrained=WholePass(run), tokenizer=byte_tokenizer(), batch_size=1, device="cpu")
