#include "cogwheel/tasks/encoders/embedding.h"

#include <torch/types.h>

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/class_names.h"
#include "cogwheel/runs/safetensors.h"
#include "cogwheel/tasks/encoders/sentence_data.h"

namespace cogwheel::tasks::encoders {

void write_embeddings(const runs::RunFolder& folder, const EmbeddingRequest& request,
                      const std::filesystem::path& out) {
  if (out.extension() != ".safetensors")
    throw UsageError(expected_got("embed: --out", "a .safetensors file", out.string()));
  runs::expect_no_run_file(out, "embed: --out");
  expect_writable(out);
  TrainedEncoder trained = load_encoder(folder);
  const std::vector<SentenceRow> texts = texts_for(trained.in_row, {.command = "embed",
                                                                    .prompt = request.prompt,
                                                                    .input = request.input,
                                                                    .classes = runs::known_class_names(folder.path()),
                                                                    .warn = request.warn});
  const std::int64_t most = trained.model->options().context;
  if (request.tokens != 0) expect_within("embed: --tokens", request.tokens, Range<std::int64_t>{2, most});
  std::vector<std::int64_t> lengths;
  for (const SentenceRow& text : texts) {
    const EncodedRow row =
        encode_row(*trained.tokenizer, text.first, text.second, request.tokens == 0 ? most : request.tokens);
    if (row.cut) request.warn(cut_warning(text));
    lengths.push_back(encoded_length(row.first, row.second));
  }
  const std::int64_t tokens = request.tokens == 0 ? *std::max_element(lengths.begin(), lengths.end()) : request.tokens;
  // A few at a time: a long file needs room for its vectors alone.
  constexpr std::size_t at_once = 64;
  std::vector<at::Tensor> parts;
  for (std::size_t first = 0; first < texts.size(); first += at_once)
    parts.push_back(
        text_states(trained, std::span(texts).subspan(first, std::min(at_once, texts.size() - first)), tokens));
  const at::Tensor contexts = at::cat(parts);
  runs::save_safetensors({.tensors = {{"contexts", contexts},
                                      {"vectors", contexts.select(1, 0).contiguous()},
                                      {"lengths", at::tensor(lengths)}},
                          .metadata = {}},
                         out);
}

}  // namespace cogwheel::tasks::encoders
