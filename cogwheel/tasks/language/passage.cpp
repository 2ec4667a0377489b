#include "cogwheel/tasks/language/passage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace cogwheel::tasks::language {
namespace {

constexpr std::size_t shortest_passage = 24, longest_passage = 31;

bool reads_as_text(const std::string& line) {
  const auto letters = std::count_if(line.begin(), line.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
  return line.find(' ') != std::string::npos && 3 * static_cast<std::size_t>(letters) >= 2 * line.size();
}

}  // namespace

std::vector<Token> choose_passage(const text::Dataset& data, std::int64_t context) {
  const std::size_t max_length = std::min(longest_passage, static_cast<std::size_t>(context));
  const std::size_t min_length = std::min(shortest_passage, max_length);
  std::vector<Token> line;
  bool whole = false;  // false at first: the part begins in the middle of a line
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
    if (whole && line.size() >= min_length && reads_as_text(data.tokenizer->decode(line))) {
      line.resize(std::min(line.size(), max_length));
      return line;
    }
    line.clear();
    whole = true;
  }
  return {data.held_out.begin(),
          data.held_out.begin() + static_cast<std::ptrdiff_t>(std::min(max_length, data.held_out.size()))};
}

std::string token_label(const text::Tokenizer& tokenizer, Token token) {
  const std::string text = tokenizer.decode({&token, 1});
  if (text.size() == 1 && (static_cast<unsigned char>(text.front()) >= 0x7f ||
                           (static_cast<unsigned char>(text.front()) < 0x20 && text != "\n" && text != "\t")))
    return fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
  return text;
}

}  // namespace cogwheel::tasks::language
