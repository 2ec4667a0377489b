// Every attention map of a model at once. Figures 10 and 11 of the Cog paper show all layers and heads of a
// softmax and of a Cog model on one text.
#include <fmt/format.h>

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/head_name.h"
#include "cogwheel/nn/attention_maps.h"
#include "cogwheel/pages/attention_gallery.h"
#include "cogwheel/pages/headline.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/research/inspect/study_text.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::inspect {
namespace gallery {

// Less of negative weights, of a total of magnitudes of 1, is not worth a word.
constexpr double noticed = 0.01;

// Of the heads of a group of runs.
struct HeadCount {
  std::int64_t heads = 0, to_first = 0, subtract = 0;
};

std::string told_counts(const std::vector<RunGroup>& groups, const std::vector<HeadCount>& of_runs,
                        std::int64_t HeadCount::*what) {
  std::vector<pages::Told> each;
  for (const RunGroup& group : groups) {
    std::int64_t count = 0, heads = 0;
    for (const std::size_t run : group.runs) count += of_runs[run].*what, heads += of_runs[run].heads;
    each.push_back(
        {group.said, static_cast<double>(count) / static_cast<double>(heads), fmt::format("{} of {}", count, heads)});
  }
  return pages::told(each);
}

StudyResult run(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  StudyResult result;
  pages::TextTable last{"The last token's row", {"run", "head", "token", "text", "weight"}, {}};
  pages::TextTable strongest{
      "Where the last token looks",
      {"run", "head", "strongest", "its weight", "second", "its weight", "negative weights, in all"},
      {}};
  std::vector<HeadCount> counts;
  for (const StudiedRun& each : runs) {
    HeadCount& count = counts.emplace_back();
    const at::Tensor row = token_row(each, parameters.whole("tokens"));
    const std::int64_t tokens = row.size(1);
    const std::vector<std::string> labels = token_labels(each, tokens);
    const std::vector<Token> text(each.text.begin(), each.text.begin() + tokens);
    pages::AttentionGallery shown{.title = each.name + ", " + mechanism_title((*each.model)->options().mechanism),
                                  .tokens = tokens,
                                  .heads = tasks::language::attention_maps(*each.model, text)};
    shown.caption =
        "Rows of pictures are layers, columns heads. In a picture, rows are queries and columns keys; blue adds a "
        "value, orange "
        "subtracts it, on a square-root scale from −1 to 1. Bars: the last query's row, scaled to its largest weight.";
    for (std::size_t layer = 0; layer < shown.heads.size(); ++layer)
      for (std::size_t head = 0; head < shown.heads[layer].size(); ++head) {
        const std::string name = head_name(static_cast<std::int64_t>(layer), static_cast<std::int64_t>(head));
        const std::vector<float>& map = shown.heads[layer][head];
        std::vector<std::pair<float, std::size_t>> ranked;
        double negative = 0;
        for (std::size_t key = 0; key < labels.size(); ++key) {
          const float weight = map[map.size() - labels.size() + key];
          last.rows.push_back({each.name, name, std::to_string(key), labels[key], study_number(weight)});
          ranked.emplace_back(weight, key);
          negative += std::max(0., -static_cast<double>(weight));
        }
        std::stable_sort(ranked.begin(), ranked.end(),
                         [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });
        ++count.heads;
        count.to_first += ranked[0].second == 0 ? 1 : 0;
        count.subtract += negative > noticed ? 1 : 0;
        const auto place = [&](std::size_t rank) {
          return "“" + labels[ranked[rank].second] + "” (" + std::to_string(ranked[rank].second) + ")";
        };
        strongest.rows.push_back({each.name, name, place(0), study_number(ranked[0].first), place(1),
                                  study_number(ranked[1].first), study_number(negative)});
      }
    result.figures.push_back(pages::attention_gallery_figure(shown));
  }
  const std::vector<RunGroup> groups = groups_of(runs);
  result.answer = fmt::format(
      "The last token looks most at the first one in {} heads, and subtracts more than {} in all in {}.",
      told_counts(groups, counts, &HeadCount::to_first), noticed, told_counts(groups, counts, &HeadCount::subtract));
  result.tables = {{"strongest", strongest}, {"rows", last, false}};
  result.remarks = {
      {"Figures 10 and 11 of the paper of Cog attention (Lv et al. 2024),",
       "as released, are bars of the last query's row; here both are shown."},
      {"The first query sees only itself:", "its weight is 1 or −1 whatever the head does."},
      {"Colours are not effects:",
       "what a weight adds depends on the value and the output matrix. inspect ioi tells more of one task."}};
  return result;
}

}  // namespace gallery

StudyEntry gallery_study() {
  return {.name = "gallery",
          .title = "Every head at once",
          .question = "What does each head of each layer look at, and which keys does it subtract?",
          .parameters = {{{"tokens", {64}, {2, 512}, "of the text, as far as it goes and the context holds them"}}},
          .run = gallery::run,
          .reads_text = true};
}

}  // namespace cogwheel::inspect
