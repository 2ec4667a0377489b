#include "cogwheel/compare/harness/continuation_questions.h"

#include <algorithm>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"

namespace cogwheel::compare {
namespace {

constexpr std::string_view white_space = " \t\r\n\f\v";

// Begin and end of every word. The first and the last may be cut, and are none.
std::vector<std::pair<std::size_t, std::size_t>> words_of(std::string_view text) {
  std::vector<std::pair<std::size_t, std::size_t>> words;
  for (std::size_t begin = text.find_first_not_of(white_space); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(white_space, begin), text.size());
    words.emplace_back(begin, end);
    begin = text.find_first_not_of(white_space, end);
  }
  if (!words.empty()) words.erase(words.begin());
  if (!words.empty()) words.pop_back();
  return words;
}

}  // namespace

std::string shared_text(std::string_view one, std::string_view other) {
  constexpr std::size_t compared = 4096;  // enough to be found where it is and seldom elsewhere
  for (std::string_view* text : {&one, &other}) {
    // A text may have been cut within a word, or within a character.
    const std::size_t begin = text->find_first_of(white_space), end = text->find_last_of(white_space);
    *text = begin == std::string_view::npos ? "" : text->substr(begin, end - begin + 1);
  }
  for (const auto& [longer, begun] : {std::pair(one, other), std::pair(other, one)}) {
    const std::string_view first = begun.substr(0, compared);
    for (std::size_t at = longer.find(first); !first.empty() && at != std::string_view::npos;
         at = longer.find(first, at + 1)) {
      const std::size_t length = std::min(longer.size() - at, begun.size());
      if (longer.substr(at, length) == begun.substr(0, length)) return std::string(begun.substr(0, length));
    }
  }
  return {};
}

std::vector<ContinuationQuestion> continuation_questions(std::string_view text, std::int64_t count,
                                                         std::uint64_t seed) {
  constexpr std::int64_t before = continuation_context_words, next = continuation_choice_words;
  const auto words = words_of(text);
  const std::int64_t places = std::ssize(words) - before - next + 1;
  if (places < 2 * before)
    throw UsageError(expected_got("continuation: held-out text", std::to_string(3 * before + next) + " words or more",
                                  std::to_string(std::ssize(words))));
  const auto place = [&](NumberedDraws& draws) {
    return before + static_cast<std::int64_t>(draws.below(static_cast<std::size_t>(places)));
  };
  const auto part = [&](std::int64_t from, std::int64_t to) {
    const std::size_t begin = from == 0 ? words[0].first : words[static_cast<std::size_t>(from - 1)].second;
    return std::string(text.substr(begin, words[static_cast<std::size_t>(to - 1)].second - begin));
  };
  std::vector<ContinuationQuestion> questions;
  for (std::int64_t number = 0; number < count; ++number) {
    NumberedDraws draws(seed, stream_named("next"), static_cast<std::uint64_t>(number));
    const std::int64_t here = place(draws);
    ContinuationQuestion question{.context = part(here - before, here), .choices = {}, .label = 0};
    question.context.erase(0, question.context.find_first_not_of(white_space));
    question.choices.push_back(part(here, here + next));
    // What overlaps with the question itself would be told by it.
    for (int tries = 0; std::ssize(question.choices) < continuation_choices; ++tries) {
      if (tries == 1000)
        throw UsageError(expected_got("continuation: held-out text", "words that differ", "the same again and again"));
      const std::int64_t there = place(draws);
      if (there > here - before - next && there < here + next) continue;
      std::string other = part(there, there + next);
      if (std::find(question.choices.begin(), question.choices.end(), other) == question.choices.end())
        question.choices.push_back(std::move(other));
    }
    question.label = static_cast<std::int64_t>(draws.below(continuation_choices));
    std::swap(question.choices.front(), question.choices[static_cast<std::size_t>(question.label)]);
    questions.push_back(std::move(question));
  }
  return questions;
}

}  // namespace cogwheel::compare
