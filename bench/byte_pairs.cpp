// The byte-pair tokenizer behind C functions, for bench/byte_pairs.py.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/threads_executor.h"
#include "cogwheel/text/byte_pairs/byte_pair_encoding.h"
#include "cogwheel/text/byte_pairs/published_byte_pairs.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

using cogwheel::text::BytePairEncoding;

// Of a tokenizer.json; null where it is refused.
EXPORTED BytePairEncoding* open_byte_pairs(const char* path) {
  try {
    const auto json = nlohmann::json::parse(cogwheel::read_file(path), nullptr, false);
    return new BytePairEncoding(cogwheel::text::hugging_face_byte_pairs(json, path), path);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return nullptr;
  }
}

// The number of tokens of all texts, which lie one after another: text i up to ends[i]. `tokens` receives them, unless
// it is null.
EXPORTED std::int64_t encode(const BytePairEncoding* encoding, const char* texts, const std::int64_t* ends,
                             std::int64_t count, int threads, std::int32_t* tokens) {
  std::vector<std::vector<cogwheel::Token>> found(static_cast<std::size_t>(count));
  const auto one = [&](std::int64_t index, int) {
    const std::int64_t start = index == 0 ? 0 : ends[index - 1];
    const std::string_view text(texts + start, static_cast<std::size_t>(ends[index] - start));
    auto& of_text = found[static_cast<std::size_t>(index)];
    of_text.reserve(text.size() / 3);
    encoding->encode(text, of_text, "text");
  };
  if (threads == 1)
    cogwheel::SerialExecutor().run(count, one);
  else
    cogwheel::ThreadsExecutor(threads).run(count, one);
  std::int64_t all = 0;
  for (const auto& each : found) {
    if (tokens != nullptr) std::copy(each.begin(), each.end(), tokens + all);
    all += std::ssize(each);
  }
  return all;
}
