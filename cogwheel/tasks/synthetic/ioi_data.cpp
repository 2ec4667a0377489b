#include "cogwheel/tasks/synthetic/ioi_data.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "cogwheel/core/philox.h"

namespace cogwheel::tasks::synthetic {
namespace {

constexpr std::array<std::string_view, 60> name_list{
    "Alice", "Amber", "Andrew", "Anna", "Arthur", "Ben",   "Bruno", "Carla", "Cecil",  "Clara", "Daniel", "Diana",
    "Edgar", "Elena", "Emma",   "Eric", "Felix",  "Fiona", "Frank", "Grace", "Greta",  "Harry", "Helen",  "Hugo",
    "Ida",   "Irene", "Isaac",  "Ivan", "Jack",   "Jane",  "John",  "Julia", "Kate",   "Kevin", "Laura",  "Leo",
    "Lily",  "Lucas", "Martin", "Mary", "Max",    "Mia",   "Nina",  "Noah",  "Olivia", "Oscar", "Paula",  "Peter",
    "Quinn", "Rosa",  "Ruth",   "Sam",  "Sarah",  "Simon", "Sofia", "Tessa", "Thomas", "Vera",  "Victor", "Walter"};

constexpr std::array<std::string_view, 14> place_list{"park",    "market",  "library", "station", "garden",
                                                      "school",  "harbour", "museum",  "office",  "theatre",
                                                      "kitchen", "beach",   "farm",    "café"};

constexpr std::array<std::string_view, 14> object_list{"ring",   "book",    "letter",  "basket", "lamp",
                                                       "ticket", "drawing", "bottle",  "violin", "map",
                                                       "coin",   "flower",  "blanket", "key"};

// FIRST and SECOND are the two names in their order, SUBJECT one of them again; PLACE and OBJECT are drawn.
constexpr std::array<std::string_view, 18> template_list{
    "After FIRST and SECOND went to the PLACE , SUBJECT gave a OBJECT to",
    "When FIRST and SECOND met at the PLACE , SUBJECT handed the OBJECT to",
    "While FIRST and SECOND were at the PLACE , SUBJECT showed a OBJECT to",
    "Then FIRST and SECOND came to the PLACE and SUBJECT sold the OBJECT to",
    "FIRST and SECOND had lunch near the PLACE , where SUBJECT offered a OBJECT to",
    "FIRST and SECOND worked in the PLACE until SUBJECT passed the OBJECT to",
    "Before FIRST and SECOND left the PLACE , SUBJECT lent a OBJECT to",
    "Once FIRST and SECOND had found the PLACE , SUBJECT threw the OBJECT to",
    "The day FIRST and SECOND saw the PLACE , SUBJECT promised a OBJECT to",
    "Because FIRST and SECOND liked the PLACE , SUBJECT brought the OBJECT to",
    "At the PLACE , FIRST and SECOND talked for an hour , and SUBJECT sent a OBJECT to",
    "In the PLACE , FIRST helped SECOND with the OBJECT , so SUBJECT gave a coin to",
    "FIRST waited for SECOND at the PLACE , and there SUBJECT returned the OBJECT to",
    "FIRST wrote to SECOND about the PLACE , and later SUBJECT mailed a OBJECT to",
    "As soon as FIRST and SECOND closed the PLACE , SUBJECT gave the key to",
    "FIRST took SECOND to the PLACE , and on the way SUBJECT read the letter to",
    "Near the PLACE FIRST and SECOND looked for a OBJECT , which SUBJECT then gave to",
    "Long after FIRST met SECOND at the PLACE , SUBJECT still owed a OBJECT to"};

constexpr std::array<std::string_view, 6> opening_list{"It was a cold morning .",      "The street was quiet .",
                                                       "Nobody had slept well .",      "It rained for an hour .",
                                                       "The news was good that day .", "The bus came late ."};

std::vector<std::string> words_in(std::string_view sentence) {
  std::istringstream stream{std::string(sentence)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool is_slot(const std::string& word) {
  return word == "FIRST" || word == "SECOND" || word == "SUBJECT" || word == "PLACE" || word == "OBJECT";
}

std::vector<std::string> all_words() {
  std::vector<std::string> all(name_list.begin(), name_list.end());
  all.insert(all.end(), place_list.begin(), place_list.end());
  const auto add = [&](const std::string& word) {
    if (word != "." && !is_slot(word) && std::find(all.begin(), all.end(), word) == all.end()) all.push_back(word);
  };
  for (const std::string_view object : object_list) add(std::string(object));
  for (const std::string_view sentence : template_list) std::ranges::for_each(words_in(sentence), add);
  for (const std::string_view sentence : opening_list) std::ranges::for_each(words_in(sentence), add);
  all.push_back(".");
  return all;
}

Token token_of(const std::string& word) { return ioi_tokenizer()->encode(word).front(); }

// A pair of names belongs to a side whichever comes first.
bool is_unseen(std::size_t one, std::size_t other) {
  const auto low = static_cast<std::uint32_t>(std::min(one, other)),
             high = static_cast<std::uint32_t>(std::max(one, other));
  return philox({low, high, 0x706169, 0}, philox_key(0))[0] % 10 == 0;
}

}  // namespace

std::shared_ptr<const text::WordTokenizer> ioi_tokenizer() {
  static const auto tokenizer = std::make_shared<const text::WordTokenizer>(all_words());
  return tokenizer;
}

std::span<const std::string_view> ioi_names() { return name_list; }

std::size_t ioi_templates() { return template_list.size(); }

std::int64_t longest_ioi_prompt(std::int64_t sentences_before) {
  const auto longest = [](std::span<const std::string_view> sentences) {
    std::size_t most = 0;
    for (const std::string_view sentence : sentences) most = std::max(most, words_in(sentence).size());
    return static_cast<std::int64_t>(most);
  };
  return 1 + longest(template_list) + sentences_before * longest(opening_list);
}

IoiPrompt draw_ioi_prompt(NumberedDraws& draws, IoiPairs pairs, std::int64_t sentences_before) {
  std::size_t first = 0, second = 0;
  do {
    first = draws.below(name_list.size());
    second = draws.below(name_list.size());
  } while (first == second || is_unseen(first, second) != (pairs == IoiPairs::unseen));
  const auto drawn = [&](std::span<const std::string_view> from) {
    return std::string(from[draws.below(from.size())]);
  };

  IoiPrompt prompt;
  prompt.io_first = draws.with_probability(0.5);
  prompt.tokens.push_back(text::SentenceTokens::begin);
  for (std::int64_t opening = 0; opening < sentences_before; ++opening)
    for (const std::string& word : words_in(drawn(opening_list))) prompt.tokens.push_back(token_of(word));
  const std::string place = drawn(place_list), object = drawn(object_list);
  const std::string io(name_list[prompt.io_first ? first : second]),
      subject(name_list[prompt.io_first ? second : first]);
  prompt.io = token_of(io);
  prompt.subject = token_of(subject);
  for (const std::string& word : words_in(drawn(template_list))) {
    const std::size_t here = prompt.tokens.size();
    const bool is_io = word == (prompt.io_first ? "FIRST" : "SECOND"),
               is_s1 = word == (prompt.io_first ? "SECOND" : "FIRST");
    if (is_io) prompt.io_at = here;
    if (is_s1) prompt.s1_at = here;
    if (word == "SUBJECT") prompt.s2_at = here;
    prompt.tokens.push_back(token_of(is_io                        ? io
                                     : is_s1 || word == "SUBJECT" ? subject
                                     : word == "PLACE"            ? place
                                     : word == "OBJECT"           ? object
                                                                  : word));
  }
  return prompt;
}

IoiPrompt with_other_names(const IoiPrompt& prompt, NumberedDraws& draws) {
  IoiPrompt other = prompt;
  std::array<Token, 5> taken{prompt.io, prompt.subject, prompt.io, prompt.io, prompt.io};
  std::size_t count = 2;
  for (const std::size_t at : {prompt.io_at, prompt.s1_at, prompt.s2_at}) {
    Token name = 0;
    do {
      name = token_of(std::string(name_list[draws.below(name_list.size())]));
    } while (std::find(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(count), name) !=
             taken.begin() + static_cast<std::ptrdiff_t>(count));
    taken[count++] = other.tokens[at] = name;
  }
  return other;
}

}  // namespace cogwheel::tasks::synthetic
