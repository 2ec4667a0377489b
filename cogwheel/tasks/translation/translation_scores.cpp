#include "cogwheel/tasks/translation/translation_scores.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <system_error>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/scratch_folder.h"
#include "cogwheel/core/process/environment_python.h"
#include "cogwheel/core/process/process.h"
#include "cogwheel/tasks/translation/translation_scores_script.h"

namespace cogwheel::tasks::translation {
namespace {

using ScoresJson = nlohmann::json;

// Indices of the sentences of each group, by length.
std::vector<std::vector<std::int64_t>> groups_of(std::span<const std::int64_t> lengths, std::int64_t count) {
  std::vector<std::int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  const auto length = [&](std::int64_t index) { return lengths[static_cast<std::size_t>(index)]; };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return length(a) < length(b); });
  std::vector<std::vector<std::int64_t>> groups;
  for (std::int64_t place = 0; place < std::ssize(order); ++place) {
    const std::int64_t index = order[static_cast<std::size_t>(place)];
    // A group is full when it has its share of the sentences, and ends where the length changes.
    const bool full = place >= std::ssize(groups) * std::ssize(order) / count;
    if (groups.empty() || (full && length(index) != length(groups.back().back()))) groups.emplace_back();
    groups.back().push_back(index);
  }
  return groups;
}

TranslationScore score_of(const ScoresJson& json) {
  return {.score = json.at("score"),
          .low = json.at("low"),
          .high = json.at("high"),
          .signature = json.at("signature").get<std::string>()};
}

}  // namespace

std::int64_t word_count(std::string_view text) {
  constexpr std::string_view white = " \t\r\n\f\v";
  std::int64_t words = 0;
  for (std::size_t place = text.find_first_not_of(white); place < text.size(); ++words)
    place = text.find_first_not_of(white, std::min(text.find_first_of(white, place), text.size()));
  return words;
}

TranslationScoring translation_scores(std::span<const std::string> references, std::span<const std::string> hypotheses,
                                      std::span<const std::int64_t> source_lengths, std::int64_t groups) {
  if (hypotheses.empty() || references.size() != hypotheses.size() || source_lengths.size() != hypotheses.size())
    throw UsageError(expected_got("translations to score",
                                  fmt::format("{} at least 1, as references", references.size()),
                                  fmt::format("{}, and {} source lengths", hypotheses.size(), source_lengths.size())));
  const auto parts = groups_of(source_lengths, groups);
  const auto none = [](std::string_view expected, std::string_view got) {
    return TranslationScoring{.scores = {}, .problem = expected_got("BLEU and chrF", expected, got)};
  };
  try {
    const ScratchFolder folder;
    const std::filesystem::path file = folder / "translations.json";
    const ScoresJson given{{"references", std::vector(references.begin(), references.end())},
                           {"hypotheses", std::vector(hypotheses.begin(), hypotheses.end())},
                           {"groups", parts}};
    write_file(file, given.dump(-1, ' ', false, ScoresJson::error_handler_t::replace));
    std::vector<std::string> command = python_running(translation_scores_script);
    command.push_back(file.string());
    const Finished finished = run_program(command);
    if (finished.status != 0) return none("an answer of sacrebleu", last_line(finished.errors));
    const ScoresJson answer = ScoresJson::parse(finished.output);
    if (answer.contains("missing"))
      return none(fmt::format("sacrebleu, which `{} -m pip install sacrebleu` installs",
                              answer.at("python").get<std::string>()),
                  fmt::format("no Python module {}", answer.at("missing").get<std::string>()));
    TranslationScores scores{.bleu = score_of(answer.at("bleu")), .chrf = score_of(answer.at("chrf")), .by_length = {}};
    for (std::size_t index = 0; index < parts.size(); ++index) {
      const auto length = [&](std::int64_t sentence) { return source_lengths[static_cast<std::size_t>(sentence)]; };
      scores.by_length.push_back({.shortest = length(parts[index].front()),
                                  .longest = length(parts[index].back()),
                                  .sentences = std::ssize(parts[index]),
                                  .bleu = score_of(answer.at("groups").at(index))});
    }
    return {.scores = std::move(scores), .problem = ""};
  } catch (const ScoresJson::exception& error) {
    return none("an answer of sacrebleu", one_line(error.what()));
  } catch (const Error& error) {  // no Python, or no room for the file
    return none("sacrebleu, a package of Python", error.what());
  }
}

}  // namespace cogwheel::tasks::translation
