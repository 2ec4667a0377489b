#include "cogwheel/data/dataset.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/data/character_tokenizer.h"

namespace cogwheel {
namespace {

// SplitMix64 (Steele, Lea and Flood 2014): a bijection of 64 bits that passes as random, counted instead of stepped.
constexpr std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

// In [0, bound). The upper half of a 128-bit product: no value is likelier than another by more than bound/2⁶⁴.
std::uint64_t bounded(std::uint64_t random, std::uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{random} * bound >> 64);
}

Windows empty_windows(std::int64_t count, std::int64_t context) {
  return {at::empty({count, context}, at::kLong), at::empty({count, context}, at::kLong)};
}

void fill_window(const std::vector<Token>& tokens, std::int64_t start, std::int64_t row, const Windows& windows) {
  const std::int64_t context = windows.inputs.size(1);
  const auto first = tokens.begin() + start;
  std::copy(first, first + context, windows.inputs.mutable_data_ptr<std::int64_t>() + row * context);
  std::copy(first + 1, first + 1 + context, windows.targets.mutable_data_ptr<std::int64_t>() + row * context);
}

}  // namespace

Dataset make_dataset(const Corpus& corpus, std::shared_ptr<const Tokenizer> tokenizer, std::int64_t context) {
  const std::vector<Token> tokens = tokenizer->encode(corpus.text, corpus.name);
  const auto held_out_start = static_cast<std::ptrdiff_t>(tokens.size() * 9 / 10);
  Dataset data{.name = corpus.name,
               .bytes = corpus.bytes(),
               .sha256 = corpus.sha256,
               .tokenizer = std::move(tokenizer),
               .training = {tokens.begin(), tokens.begin() + held_out_start},
               .held_out = {tokens.begin() + held_out_start, tokens.end()},
               .files = corpus.files,
               .left_out = corpus.left_out};
  // A window needs one token more than its context: the last target.
  const auto least = static_cast<std::size_t>(context) + 1;
  if (data.held_out.size() < least || data.training.size() < least)
    throw Error(expected_got(corpus.name,
                             "at least " + std::to_string(10 * least) + " tokens, for a context of " +
                                 std::to_string(context) + " in the tenth that is held out",
                             std::to_string(tokens.size())));
  return data;
}

Dataset make_dataset(const Corpus& corpus, std::string_view tokenizer_kind, std::int64_t context) {
  // File by file, so that the message can name the one.
  if (tokenizer_kind == "character")
    for (const auto& file : corpus.files)
      expect_characters(std::string_view(corpus.text)
                            .substr(static_cast<std::size_t>(file.offset), static_cast<std::size_t>(file.bytes)),
                        file.path.string());
  return make_dataset(corpus, make_tokenizer(tokenizer_kind, corpus.text, corpus.name), context);
}

Windows training_windows(const Dataset& data, std::int64_t context, std::int64_t batch, std::uint64_t seed,
                         std::int64_t step) {
  const auto starts = data.training.size() - static_cast<std::size_t>(context);
  const Windows windows = empty_windows(batch, context);
  for (std::int64_t row = 0; row < batch; ++row) {
    const std::uint64_t random =
        mix(mix(mix(seed) + static_cast<std::uint64_t>(step)) + static_cast<std::uint64_t>(row));
    fill_window(data.training, static_cast<std::int64_t>(bounded(random, starts)), row, windows);
  }
  return windows;
}

Windows held_out_windows(const Dataset& data, std::int64_t context, std::int64_t tokens) {
  const std::int64_t all = (static_cast<std::int64_t>(data.held_out.size()) - 1) / context;
  const std::int64_t count = tokens == 0 ? all : std::clamp<std::int64_t>(tokens / context, 1, all);
  const Windows windows = empty_windows(count, context);
  for (std::int64_t row = 0; row < count; ++row) fill_window(data.held_out, row * all / count * context, row, windows);
  return windows;
}

}  // namespace cogwheel
