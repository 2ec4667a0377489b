#include "cogwheel/tasks/language/text_generation.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/tasks/language/beams.h"
#include "cogwheel/tasks/language/generator.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/written_text.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::tasks::language {
namespace {

using OnText = std::function<bool(const GeneratedText&, std::string_view, bool)>;

void check(const TextGenerationOptions& options, std::size_t prompts, const text::Tokenizer* tokenizer) {
  runs::check(options.sampling);
  if (prompts == 0) throw UsageError(expected_got("prompts", "at least one", "none"));
  if (options.count < 1) throw UsageError(expected_got("count", "1 or more", std::to_string(options.count)));
  expect_within("batch", options.batch, Range<std::int64_t>{1, 1024});
  expect_within("beam", options.beam, Range<std::int64_t>{1, 1000});
  constexpr std::int64_t most = 10'000'000;  // of texts, all of which are kept
  if (options.count > most / static_cast<std::int64_t>(prompts))
    throw UsageError(expected_got("count", "at most " + std::to_string(most) + " texts of all prompts",
                                  std::to_string(options.count) + " of each of " + std::to_string(prompts)));
  if (tokenizer == nullptr && !options.sampling.stop.empty())
    throw UsageError(expected_got("stop", "a model with a tokenizer", "one without"));
}

// Sequences that are under way, and those that wait for a place in the batch.
class Texts {
 public:
  Texts(LanguageModel& model, const text::Tokenizer* tokenizer, std::span<const std::vector<Token>> prompts,
        const TextGenerationOptions& options, const OnText& on_text)
      : generator_(model), tokenizer_(tokenizer), prompts_(prompts), options_(options), on_text_(on_text) {
    for (std::uint64_t number = 0; number < prompts.size() * static_cast<std::uint64_t>(options.count); ++number)
      made_.push_back({.number = number});
  }

  std::vector<GeneratedText> run() {
    while (!interrupted_) {
      while (static_cast<std::int64_t>(generator_.size()) < options_.batch && next_ < made_.size()) enter();
      if (generator_.empty()) break;
      for (const GeneratedToken& token : generator_.step()) add(token);
    }
    if (interrupted_)
      for (GeneratedText& each : made_)
        if (under_way_.contains(each.number) || each.number >= next_) each.end = EndOfText::interrupted;
    return std::move(made_);
  }

 private:
  struct UnderWay {
    WrittenText writer;
    std::vector<Token> tokens;  // the prompt's too, after which a word begins with its space
  };

  void enter() {
    const std::uint64_t number = next_++;
    const std::vector<Token>& prompt = prompts_[number / static_cast<std::uint64_t>(options_.count)];
    under_way_.emplace(number, UnderWay{WrittenText(options_.sampling.stop), prompt});
    generator_.enter(number, prompt, options_.sampling);
    if (options_.sampling.length == 0) end(number, EndOfText::length);
  }

  void add(const GeneratedToken& token) {
    GeneratedText& made = made_[token.sequence];
    if (options_.end == token.chosen.token) return end(token.sequence, EndOfText::end_token);
    made.tokens.push_back(token.chosen);
    UnderWay& text = under_way_.at(token.sequence);
    show(made, tokenizer_ == nullptr ? "" : text.writer.add(tokenizer_->decode_next(text.tokens, token.chosen.token)),
         false);
    text.tokens.push_back(token.chosen.token);
    if (text.writer.stopped()) return end(token.sequence, EndOfText::stop);
    if (std::ssize(made.tokens) == options_.sampling.length) end(token.sequence, EndOfText::length);
  }

  void end(std::uint64_t number, EndOfText how) {
    GeneratedText& made = made_[number];
    made.end = how;
    show(made, under_way_.at(number).writer.finish(), true);
    under_way_.erase(number);
    generator_.leave(number);
  }

  void show(GeneratedText& made, const std::string& text, bool ended) {
    made.text += text;
    if (on_text_ && !on_text_(made, text, ended)) interrupted_ = true;
  }

  Generator generator_;
  const text::Tokenizer* tokenizer_;
  std::span<const std::vector<Token>> prompts_;
  const TextGenerationOptions& options_;
  const OnText& on_text_;
  std::vector<GeneratedText> made_;
  std::map<std::uint64_t, UnderWay> under_way_;
  std::uint64_t next_ = 0;
  bool interrupted_ = false;
};

// One text of each prompt, which knows no chance.
std::vector<GeneratedText> most_probable_texts(LanguageModel& model, const text::Tokenizer* tokenizer,
                                               std::span<const std::vector<Token>> prompts,
                                               const TextGenerationOptions& options, const OnText& on_text) {
  std::vector<GeneratedText> made;
  for (const std::vector<Token>& prompt : prompts) {
    GeneratedText text{.number = made.size()};
    bool interrupted = false;
    const auto go_on = [&] {
      interrupted = interrupted || (on_text && !on_text(text, "", false));
      return !interrupted;
    };
    const text::Hypothesis best = most_probable(model, prompt, options.sampling.length, options.beam, options.end,
                                                go_on, options.sampling.cache, options.sampling.vocabulary);
    if (interrupted) break;
    text.end = best.ended ? EndOfText::end_token : EndOfText::length;
    for (const Token token : best.tokens) text.tokens.push_back({.token = token, .log_probability = std::nan("")});
    if (tokenizer != nullptr) {
      WrittenText writer({});
      text.text = writer.add(tokenizer->decode(best.tokens)) + writer.finish();
    }
    made.push_back(text);
    if (on_text && !on_text(text, text.text, true)) break;
  }
  return made;
}

}  // namespace

std::string_view name_of(EndOfText end) {
  switch (end) {
    case EndOfText::length:
      return "length";
    case EndOfText::end_token:
      return "end_token";
    case EndOfText::stop:
      return "stop";
    case EndOfText::interrupted:
      return "interrupted";
  }
  return "";
}

std::vector<GeneratedText> generate_texts(LanguageModel& model, const text::Tokenizer* tokenizer,
                                          std::span<const std::vector<Token>> prompts,
                                          const TextGenerationOptions& given, const OnText& on_text) {
  TextGenerationOptions options = given;
  if (tokenizer != nullptr) options.sampling.vocabulary = tokenizer->vocabulary();
  check(options, prompts.size(), tokenizer);
  const std::int64_t vocabulary = model->options().vocabulary;
  if (options.end) expect_within("end token", std::int64_t{*options.end}, Range<std::int64_t>{0, vocabulary - 1});
  // A text without a beginning begins as a document does after another.
  std::vector<std::vector<Token>> begun(prompts.begin(), prompts.end());
  if (tokenizer != nullptr && tokenizer->end_of_document())
    for (std::vector<Token>& prompt : begun)
      if (prompt.empty()) prompt.push_back(*tokenizer->end_of_document());
  if (options.beam == 1) return Texts(model, tokenizer, begun, options, on_text).run();
  if (options.count != 1) throw UsageError(expected_got("count", "1 beside beams", std::to_string(options.count)));
  if (options.sampling.likeliest >= 0)
    throw UsageError(
        expected_got("log-probabilities", "none beside beams", std::to_string(options.sampling.likeliest)));
  if (!options.sampling.stop.empty()) throw UsageError(expected_got("stop", "none beside beams", "some"));
  if (options.sampling.sink >= 0)
    throw UsageError(expected_got("sink", "none beside beams", std::to_string(options.sampling.sink)));
  if (options.sampling.repetition_penalty != 1)
    throw UsageError(expected_got("repetition penalty", "1 beside beams", "another"));
  return most_probable_texts(model, tokenizer, begun, options, on_text);
}

nlohmann::ordered_json to_json(const GeneratedText& generated) {
  nlohmann::ordered_json json{{"number", generated.number}, {"text", generated.text}, {"end", name_of(generated.end)}};
  auto tokens = nlohmann::ordered_json::array(), logs = tokens, likeliest = tokens;
  bool with_logs = false;
  for (const ChosenToken& each : generated.tokens) {
    tokens.push_back(each.token);
    if (std::isnan(each.log_probability)) continue;
    with_logs = true;
    logs.push_back(each.log_probability);
    auto of_place = nlohmann::ordered_json::array();
    for (const TokenProbability& other : each.likeliest)
      of_place.push_back(nlohmann::ordered_json::array({other.token, other.log_probability}));
    likeliest.push_back(std::move(of_place));
  }
  json["tokens"] = std::move(tokens);
  if (with_logs) {
    json["log_probabilities"] = std::move(logs);
    json["likeliest"] = std::move(likeliest);
  }
  return json;
}

}  // namespace cogwheel::tasks::language
