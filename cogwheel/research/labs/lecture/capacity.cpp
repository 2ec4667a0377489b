// What a state of d numbers of b bits holds, and what a sentence needs: d·b ≥ L·log₂|V|. Shannon, "A
// Mathematical Theory of Communication" (1948), theorem 9. The lecture counts words as equally probable; text is not.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "cogwheel/research/labs/lab.h"
#include "cogwheel/text/corpus.h"

namespace cogwheel::labs::capacity {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"width", {256}, {1, 1e9}, "d, numbers of a state"},
           {"bits", {32}, {1, 1024}, "b, bits of each number"},
           {"vocabulary", {32768}, {2, 1e12}, "|V|, different words"},
           {"words", {1000}, {1, 1e12}, "L, words of a sentence"},
           {"widths", {256, 512, 1024, 4096}, {1, 1e9}, "d in the table", whole, true},
           {"bits_listed", {8, 16, 32}, {1, 1024}, "b in the table", whole, true},
           {"vocabularies", {256, 8000, 32768, 131072}, {2, 1e12}, "|V| in the table", whole, true},
           {"text_bytes", {8 << 20}, {1 << 10, 1 << 26}, "of the text whose entropy is measured"}}};
}

// Of a distribution that counts give, in bits. Sorted, so that the sum does not depend on the order of a hash table.
template <class Counts>
double entropy(const Counts& counts) {
  std::vector<std::int64_t> sorted;
  for (const auto& [key, count] : counts) sorted.push_back(count);
  std::sort(sorted.begin(), sorted.end());
  double total = 0, sum = 0;
  for (const std::int64_t count : sorted) {
    total += static_cast<double>(count);
    sum += static_cast<double>(count) * std::log2(static_cast<double>(count));
  }
  return total > 0 ? std::log2(total) - sum / total : 0;
}

struct TextEntropy {
  std::string unit;
  std::int64_t tokens = 0, different = 0;
  double single = 0;       // of a token by itself
  double conditional = 0;  // given the one before
};

TextEntropy measure(const std::string& unit, const std::vector<std::int64_t>& tokens) {
  std::unordered_map<std::int64_t, std::int64_t> single, pairs, before;
  std::int64_t previous = -1;
  for (const std::int64_t token : tokens) {
    ++single[token];
    if (previous >= 0) ++pairs[previous << 32 | token], ++before[previous];
    previous = token;
  }
  return {unit, std::ssize(tokens), static_cast<std::int64_t>(single.size()), entropy(single),
          entropy(pairs) - entropy(before)};
}

std::vector<std::int64_t> characters(std::string_view text) {
  std::vector<std::int64_t> codes;
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    if ((value & 0xc0) != 0x80)
      codes.push_back(value);
    else if (!codes.empty())
      codes.back() = codes.back() << 6 | (value & 0x3f);
  }
  return codes;
}

bool in_word(char character) {
  const auto value = static_cast<unsigned char>(character);
  return std::isalnum(value) != 0 || character == '_' || value >= 0x80;
}

// Runs of letters, digits and underscores, and each other character but white space by itself. The `most` − 1 most
// frequent ones have a number of their own; all others share one, as in a vocabulary with an unknown word.
std::vector<std::int64_t> words(std::string_view text, std::int64_t most) {
  std::vector<std::string_view> all;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    if (in_word(text[at]))
      while (end < text.size() && in_word(text[end])) ++end;
    if (std::isspace(static_cast<unsigned char>(text[at])) == 0) all.push_back(text.substr(at, end - at));
    at = end;
  }
  std::map<std::string_view, std::int64_t> counts;
  for (const std::string_view word : all) ++counts[word];
  std::vector<std::pair<std::int64_t, std::string_view>> frequent;
  for (const auto& [word, count] : counts) frequent.emplace_back(-count, word);
  std::sort(frequent.begin(), frequent.end());
  std::unordered_map<std::string_view, std::int64_t> numbers;
  for (std::int64_t index = 0; index < std::min(std::ssize(frequent), most - 1); ++index)
    numbers[frequent[static_cast<std::size_t>(index)].second] = index + 1;
  std::vector<std::int64_t> tokens;
  for (const std::string_view word : all) {
    const auto found = numbers.find(word);
    tokens.push_back(found == numbers.end() ? 0 : found->second);
  }
  return tokens;
}

double longest(double state_bits, double bits_of_a_word) { return std::floor(state_bits / bits_of_a_word); }

pages::TextTable capacities(const LabParameters& parameters) {
  pages::TextTable table{"Words that fit, at most: d·b / log₂|V|", {"d", "b", "bits of the state"}, {}};
  for (const std::int64_t vocabulary : parameters.wholes("vocabularies"))
    table.columns.push_back("|V| = " + number_for_readers(static_cast<double>(vocabulary)));
  for (const std::int64_t width : parameters.wholes("widths"))
    for (const std::int64_t bits : parameters.wholes("bits_listed")) {
      const auto state = static_cast<double>(width * bits);
      std::vector<std::string> row{number_for_readers(static_cast<double>(width)), std::to_string(bits),
                                   number_for_readers(state)};
      for (const std::int64_t vocabulary : parameters.wholes("vocabularies"))
        row.push_back(number_for_readers(longest(state, std::log2(static_cast<double>(vocabulary)))));
      table.rows.push_back(std::move(row));
    }
  return table;
}

pages::LineChart lengths(double state, double uniform, double measured, std::int64_t words) {
  pages::LineChart chart{.title = "What a sentence needs, and what a state holds",
                         .x = {.title = "words", .logarithmic = true},
                         .y = {.title = "bits", .logarithmic = true},
                         .series = {{.name = "words equally probable", .x = {}, .y = {}, .points = false},
                                    {.name = "words as frequent as in the text", .x = {}, .y = {}, .points = false}},
                         .marks = {{pages::ChartMark::Axis::y, state, "bits of the state"},
                                   {pages::ChartMark::Axis::x, static_cast<double>(words),
                                    number_for_readers(static_cast<double>(words)) + " words"}},
                         .caption = "Above the dotted line a state cannot tell all such sentences from each other."};
  for (const double share : {0.01, 0.1, 1., 10.}) {
    const double length = share * static_cast<double>(words);
    chart.series[0].x.push_back(length), chart.series[0].y.push_back(length * uniform);
    chart.series[1].x.push_back(length), chart.series[1].y.push_back(length * measured);
  }
  return chart;
}

LabResult run(const LabParameters& given, const LabHost& /*host*/) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const auto state = static_cast<double>(given.whole("width") * given.whole("bits"));
  const double uniform = std::log2(given.number("vocabulary"));
  const double words_wanted = given.number("words");
  const text::Corpus corpus = text::load_python_standard_library(given.whole("text_bytes"));
  const TextEntropy by_character = measure("character", characters(corpus.text)),
                    by_word = measure("word", words(corpus.text, given.whole("vocabulary")));
  const bool as_in_source = given.same(parameters(), {"width", "bits", "vocabulary", "words"});
  const auto exactly = as_in_source ? near : shown;

  const std::string too_few =
      "The lecture's sentence exceeds the state because its words count as equally probable and independent, its own "
      "caveat. Real text carries fewer bits. The bound d·b holds; that this sentence exceeds it does not follow.";
  const double needed = words_wanted * by_word.single;
  pages::TextTable table{
      "Entropy of " + corpus.name + ", the first " + number_for_readers(static_cast<double>(corpus.bytes())) + " bytes",
      {"unit", "in the text", "different", "log₂ of that", "entropy by frequency", "given the one before",
       "units that fit by frequency"},
      {}};
  for (const TextEntropy& each : {by_character, by_word})
    table.rows.push_back({each.unit, number_for_readers(static_cast<double>(each.tokens)),
                          number_for_readers(static_cast<double>(each.different)),
                          fmt::format("{:.2f}", std::log2(static_cast<double>(each.different))),
                          fmt::format("{:.2f}", each.single), fmt::format("{:.2f}", each.conditional),
                          number_for_readers(longest(state, each.single))});
  return {
      .answer = fmt::format(
          "A state of {} numbers of {} bits holds {} bits, at most {} words of {} that are equally probable. Words of "
          "real text carry {:.1f} bits each by their frequency, so {} of them fit.",
          given.whole("width"), given.whole("bits"), number_for_readers(state),
          number_for_readers(longest(state, uniform)), number_for_readers(given.number("vocabulary")), by_word.single,
          number_for_readers(longest(state, by_word.single))),
      .findings = {{"Bits of the state, d·b", printed, exactly, 8192, 0, state},
                   {"Bits of a word, log₂|V|", printed, exactly, 15, 0, uniform},
                   {"Bits of the sentence, L·log₂|V|", printed, exactly, 15000, 0, words_wanted * uniform},
                   {"Words that fit at most, d·b / log₂|V|", follows, exactly, 546, 0, longest(state, uniform)},
                   {"Bits of a word of real text by its frequency (log₂|V| is the bound)", follows, at_most, uniform, 0,
                    by_word.single},
                   {"Bits of such a sentence of real text, by the frequency of its words (above the state's: loss)",
                    direction, as_in_source ? above : shown, state, 0, needed, needed > state ? "" : too_few},
                   {"Bits of such a sentence of real text, each word given the one before (above the state's: loss)",
                    direction, as_in_source ? above : shown, state, 0, words_wanted * by_word.conditional,
                    words_wanted * by_word.conditional > state ? "" : too_few}},
      .charts = {lengths(state, uniform, by_word.single, given.whole("words"))},
      .tables = {capacities(given), table},
      .assumptions = {{"A bit of a number is a bit of memory.",
                       "Every pattern of bits is a state that can be told from the others, which no trained network "
                       "comes near: the bound is for the best of all codes."},
                      {"Words are drawn one by one.",
                       "log₂|V| takes them as equally probable, the entropy by frequency as independent. Both are "
                       "above what text carries; the entropy given the one before is closer, but too low where pairs "
                       "are rarer than the text is long."},
                      {"The text is source code.",
                       "Python's standard library is at hand wherever Cogwheel runs. Prose has other frequencies."},
                      {"The text has the hash " + corpus.sha256.substr(0, 16) + "…",
                       "Another version of Python gives other entropies; the rest of the page stays."}}};
}

}  // namespace
}  // namespace cogwheel::labs::capacity

namespace cogwheel::labs {
LabEntry capacity_lab() {
  return {"capacity", "What a state holds", "Can one state of a recurrent network hold a sentence of 1,000 words?",
          capacity::parameters(), capacity::run};
}
}  // namespace cogwheel::labs
