#include "cogwheel/text/word_piece.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/text/bert_words.h"
#include "cogwheel/text/text_lines.h"
#include "cogwheel/text/word_piece_learning.h"

namespace cogwheel::text {
namespace {

constexpr std::string_view continuation = "##";
constexpr std::ptrdiff_t longest_word = 100;  // characters: Devlin et al. take longer ones for unknown

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

std::string piece_problem(std::string_view piece) {
  if (piece.empty()) return "an empty one";
  if (piece.find_first_of(" \t\r\n") != std::string_view::npos) return "\"" + std::string(piece) + "\"";
  const std::size_t offset = find_non_text(piece);
  return offset == std::string_view::npos ? "" : code_point_text(piece, offset);
}

}  // namespace

WordPieceTokenizer::WordPieceTokenizer(std::vector<std::string> pieces, bool cased, std::string_view what,
                                       std::string_view unit)
    : pieces_(std::move(pieces)), cased_(cased) {
  const auto refuse = [&](std::size_t index, std::string_view expected, std::string_view got) {
    throw Error(expected_got(fmt::format("{}, {} {}", what, unit, index + 1), expected, got));
  };
  if (std::ssize(pieces_) > vocabularies.max)
    throw Error(
        expected_got(what, fmt::format("{} pieces at most", vocabularies.max), fmt::format("{}", pieces_.size())));
  for (std::size_t index = 0; index < pieces_.size(); ++index) {
    std::string_view piece = pieces_[index];
    if (const std::string problem = piece_problem(piece); !problem.empty())
      refuse(index, "a piece of a word, without spaces, in UTF-8", problem);
    const bool goes_on = piece.starts_with(continuation) && piece.size() > continuation.size();
    continues_.push_back(goes_on);
    auto& tokens = goes_on ? continuations_ : starts_;
    if (goes_on) piece.remove_prefix(continuation.size());
    const auto [found, is_new] = tokens.emplace(piece, static_cast<Token>(index));
    if (!is_new)
      refuse(index, "a piece that is not there yet",
             fmt::format("{}, which is {} {}", pieces_[index], unit, found->second + 1));
    longest_ = std::max(longest_, piece.size());
  }
  std::vector<std::string_view> missing;
  Token* const tokens[] = {&specials_.padding, &specials_.unknown, &specials_.first, &specials_.separator,
                           &specials_.mask};
  for (std::size_t special = 0; special < special_pieces.size(); ++special) {
    const auto found = starts_.find(special_pieces[special]);
    if (found == starts_.end())
      missing.push_back(special_pieces[special]);
    else
      *tokens[special] = found->second;
  }
  if (!missing.empty())
    throw Error(expected_got(what, fmt::format("a vocabulary with {}", fmt::join(special_pieces, ", ")),
                             fmt::format("{} pieces without {}", pieces_.size(), fmt::join(missing, ", "))));
}

std::shared_ptr<const WordPieceTokenizer> WordPieceTokenizer::read(const std::filesystem::path& path, bool cased) {
  return std::make_shared<WordPieceTokenizer>(read_text_lines(path).lines, cased, path.string(), "line");
}

std::shared_ptr<const WordPieceTokenizer> WordPieceTokenizer::learn(std::span<const std::string_view> lines,
                                                                    std::int64_t vocabulary, bool cased,
                                                                    std::string_view what) {
  return std::make_shared<WordPieceTokenizer>(learn_word_pieces(lines, vocabulary, cased, what), cased, what);
}

std::string WordPieceTokenizer::vocabulary_text() const { return fmt::format("{}\n", fmt::join(pieces_, "\n")); }

std::vector<Token> WordPieceTokenizer::encode(std::string_view text, std::string_view what) const {
  std::vector<Token> tokens;
  const auto append_words = [&](std::string_view part) {
    for (const std::string& word : bert_words(part, cased_, what)) append_word(word, tokens);
  };
  for (std::size_t bracket = text.find('['); bracket != std::string_view::npos;) {
    const auto special = std::find_if(special_pieces.begin(), special_pieces.end(),
                                      [&](std::string_view piece) { return text.substr(bracket).starts_with(piece); });
    if (special == special_pieces.end()) {
      bracket = text.find('[', bracket + 1);
      continue;
    }
    append_words(text.substr(0, bracket));
    tokens.push_back(starts_.at(*special));
    text.remove_prefix(bracket + special->size());
    bracket = text.find('[');
  }
  append_words(text);
  return tokens;
}

void WordPieceTokenizer::append_word(std::string_view word, std::vector<Token>& tokens) const {
  const std::size_t before = tokens.size();
  const auto give_up = [&] {
    tokens.resize(before);
    tokens.push_back(specials_.unknown);
  };
  if (std::count_if(word.begin(), word.end(), begins_character) > longest_word) return give_up();
  for (std::size_t begin = 0; begin < word.size();) {
    const auto& known = begin == 0 ? starts_ : continuations_;
    std::size_t end = std::min(word.size(), begin + longest_);
    for (; end > begin; --end) {
      if (end < word.size() && !begins_character(word[end])) continue;
      const auto found = known.find(word.substr(begin, end - begin));
      if (found == known.end()) continue;
      tokens.push_back(found->second);
      break;
    }
    if (end == begin) return give_up();
    begin = end;
  }
}

std::string WordPieceTokenizer::decode(std::span<const Token> tokens) const {
  std::string text;
  for (const Token token : tokens) text += addition(token, text.empty());
  return text;
}

std::string WordPieceTokenizer::decode_next(std::span<const Token> before, Token next) const {
  const bool first = std::all_of(before.begin(), before.end(), [&](Token token) { return is_left_out(token); });
  return addition(next, first);
}

bool WordPieceTokenizer::is_left_out(Token token) const {
  return token == specials_.padding || token == specials_.first || token == specials_.separator;
}

std::string WordPieceTokenizer::addition(Token token, bool first) const {
  const std::string& whole = piece(token);
  if (is_left_out(token)) return "";
  if (first) return whole;
  if (continues(token)) return whole.substr(continuation.size());
  const bool close = std::string_view(".,!?").find(whole.front()) != std::string_view::npos;
  return (close ? "" : " ") + whole;
}

std::string WordPieceTokenizer::to_json() const {
  return nlohmann::ordered_json{{"kind", kind()}, {"cased", cased_}, {"pieces", pieces_}}.dump(2) + "\n";
}

const std::string& WordPieceTokenizer::piece(Token token) const {
  if (token < 0 || token >= vocabulary())
    throw Error(expected_got("token", "below " + std::to_string(vocabulary()), std::to_string(token)));
  return pieces_[static_cast<std::size_t>(token)];
}

bool WordPieceTokenizer::is_special(Token token) const {
  return token == specials_.padding || token == specials_.unknown || token == specials_.first ||
         token == specials_.separator || token == specials_.mask;
}

std::shared_ptr<const WordPieceTokenizer> load_word_piece(const std::filesystem::path& path) {
  const std::shared_ptr<const Tokenizer> loaded = load_tokenizer(path);
  if (auto tokenizer = std::dynamic_pointer_cast<const WordPieceTokenizer>(loaded)) return tokenizer;
  throw Error(expected_got(path.string(), "a tokenizer of kind word_piece", loaded->kind()));
}

}  // namespace cogwheel::text
