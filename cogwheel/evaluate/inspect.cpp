#include "cogwheel/evaluate/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "cogwheel/models/attention_maps.h"
#include "cogwheel/models/language_model_options.h"
#include "cogwheel/models/sampling.h"

namespace cogwheel {
namespace {

constexpr std::size_t shortest_passage = 24, longest_passage = 31;

bool reads_as_text(const std::string& line) {
  const auto letters = std::count_if(line.begin(), line.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
  return line.find(' ') != std::string::npos && 3 * static_cast<std::size_t>(letters) >= 2 * line.size();
}

}  // namespace

std::vector<Token> choose_passage(const Dataset& data, std::int64_t context) {
  const std::size_t most = std::min(longest_passage, static_cast<std::size_t>(context));
  const std::size_t least = std::min(shortest_passage, most);
  std::vector<Token> line;
  bool whole = false;  // the part begins in the middle of a line
  const auto starts_with_space = [&] {
    const std::string text = data.tokenizer->decode({line.data(), 1});
    return text == " " || text == "\t";
  };
  for (const Token token : data.held_out) {
    if (data.tokenizer->decode({&token, 1}) != "\n") {
      line.push_back(token);
      continue;
    }
    while (!line.empty() && starts_with_space()) line.erase(line.begin());
    if (whole && line.size() >= least && reads_as_text(data.tokenizer->decode(line))) {
      line.resize(std::min(line.size(), most));
      return line;
    }
    line.clear();
    whole = true;
  }
  return {data.held_out.begin(),
          data.held_out.begin() + static_cast<std::ptrdiff_t>(std::min(most, data.held_out.size()))};
}

std::string token_label(const Tokenizer& tokenizer, Token token) {
  const std::string text = tokenizer.decode({&token, 1});
  if (text.size() == 1 && (static_cast<unsigned char>(text.front()) >= 0x7f ||
                           (static_cast<unsigned char>(text.front()) < 0x20 && text != "\n" && text != "\t")))
    return fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
  return text;
}

Inspection inspect(LanguageModel& model, const Dataset& data, std::string_view mechanism, std::int64_t seed) {
  const std::vector<Token> passage = choose_passage(data, options_of(model).context);
  Inspection inspection{
      .mechanism = std::string(mechanism), .seed = seed, .tokens = {}, .maps = {}, .prompt = {}, .sample = {}};
  for (const Token token : passage) inspection.tokens.push_back(token_label(*data.tokenizer, token));
  for (auto& layer : attention_maps(model, passage)) {
    inspection.maps.emplace_back();
    for (auto& head : layer) inspection.maps.back().push_back({std::move(head)});
  }

  SamplingOptions options;
  options.length = 240;
  options.temperature = 0.8;
  options.seed = static_cast<std::uint64_t>(seed);
  inspection.prompt = data.tokenizer->decode(passage);
  inspection.sample = data.tokenizer->decode(sample(model, passage, options));
  return inspection;
}

}  // namespace cogwheel
