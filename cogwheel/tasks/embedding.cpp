#include "cogwheel/tasks/embedding.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/storage/safetensors.h"
#include "cogwheel/tasks/sentence_data.h"

namespace cogwheel {

void write_embeddings(const RunFolder& folder, const EmbeddingRequest& request, const std::filesystem::path& out) {
  if (request.texts.empty()) throw UsageError(expected_got("embed", "a text at least", "none"));
  if (out.extension() != ".safetensors")
    throw UsageError(expected_got("embed: --out", "a .safetensors file", out.string()));
  expect_no_run_file(out, "embed: --out");
  TrainedEncoder trained = load_encoder(folder);
  const std::int64_t most = trained.model->options().context;
  if (request.tokens != 0) expect_within("embed: --tokens", request.tokens, Range<std::int64_t>{2, most});
  std::vector<std::int64_t> lengths;
  for (std::size_t line = 0; line < request.texts.size(); ++line) {
    const EncodedRow row = encode_text(trained, request.texts[line], request.tokens == 0 ? most : request.tokens);
    if (row.cut) request.warn(fmt::format("line {} is too long and was cut", line + 1));
    lengths.push_back(encoded_length(row.first, row.second));
  }
  const std::int64_t tokens = request.tokens == 0 ? *std::max_element(lengths.begin(), lengths.end()) : request.tokens;
  // A few at a time: a long file needs room for its vectors alone.
  constexpr std::size_t at_once = 64;
  std::vector<at::Tensor> parts;
  for (std::size_t first = 0; first < request.texts.size(); first += at_once) {
    const auto begin = request.texts.begin() + static_cast<std::ptrdiff_t>(first);
    const std::size_t count = std::min(at_once, request.texts.size() - first);
    parts.push_back(text_states(trained, {begin, begin + static_cast<std::ptrdiff_t>(count)}, tokens));
  }
  const at::Tensor contexts = at::cat(parts);
  save_safetensors({.tensors = {{"contexts", contexts},
                                {"vectors", contexts.select(1, 0).contiguous()},
                                {"lengths", at::tensor(lengths)}},
                    .metadata = {}},
                   out);
}

}  // namespace cogwheel
