// Which heads tell the indirect object (tasks/synthetic/ioi_data.h), and how: by path patching, weights, what they
// write, and whether their circuits copy or delete. Heads of Cog attention may delete by negative weights, and copy by
// their circuits, where those of softmax delete by circuits alone.
#include "cogwheel/tasks/synthetic/ioi_data.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/head_name.h"
#include "cogwheel/interpret/copying.h"
#include "cogwheel/interpret/head_scores.h"
#include "cogwheel/interpret/ioi_prompts.h"
#include "cogwheel/interpret/path_patching.h"
#include "cogwheel/pages/headline.h"
#include "cogwheel/research/inspect/correlation.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/translation/alignment_figure.h"

namespace cogwheel::inspect {
namespace {

void expect_ioi(const StudiedRun& run) {
  if (run.config.task.name != "ioi")
    throw UsageError(expected_got(run.name, "a run of the task ioi (cogwheel compare --preset ioi makes some)",
                                  "one of " + run.config.task.name));
  for (const nn::TransformerBlock& layer : (*run.model)->layers())
    if (!layer->value_circuit())
      throw UsageError(expected_got(run.name, "layers with heads of attention", (*run.model)->options().mechanism));
}

// One head at END of each prompt.
struct HeadAtEnd {
  std::vector<double> to_io, to_subject;          // weights
  std::vector<double> writes_io, writes_subject;  // inner products of what it writes with the unembeddings
};

// The weights of row END of every head, and what the head writes, along the unembeddings of both names.
struct Observed {
  std::map<std::int64_t, at::Tensor> weights;  // by layer: [B, heads, N] of row END
  std::map<std::int64_t, at::Tensor> written;  // by layer: [B, heads, width]
  double accuracy = 0, difference = 0;
};

Observed observe(tasks::language::LanguageModelImpl& model, const interpret::IoiPrompts& drawn) {
  const torch::NoGradGuard no_gradient;
  Observed seen;
  nn::Hooks hooks;
  hooks.read(nn::HookPlace::pattern, [&](const nn::HookPoint& at, const at::Tensor& value) {
    seen.weights[at.layer] = interpret::at_end(value.transpose(1, 2), drawn.clean.end).to(at::kCPU, at::kDouble);
  });
  hooks.read(nn::HookPlace::result, [&](const nn::HookPoint& at, const at::Tensor& value) {
    seen.written[at.layer] = interpret::at_end(value, drawn.clean.end).to(at::kCPU, at::kDouble);
  });
  const at::Tensor logits = model.forward(drawn.clean.tokens, {.hooks = &hooks}).cpu();
  seen.accuracy = (interpret::at_end(logits, drawn.clean.end).argmax(-1) == drawn.clean.answer)
                      .to(at::kDouble)
                      .mean()
                      .item<double>();
  seen.difference = interpret::logit_difference(logits, drawn.clean).mean(at::kDouble).item<double>();
  return seen;
}

HeadAtEnd head_at_end(const tasks::language::LanguageModelImpl& model, const interpret::IoiPrompts& drawn,
                      const Observed& seen, std::int64_t layer, std::int64_t head) {
  HeadAtEnd found;
  const at::Tensor weights = seen.weights.at(layer).select(1, head), written = seen.written.at(layer).select(1, head);
  const at::Tensor unembedding = model.unembedding().detach().to(at::kCPU, at::kDouble);
  for (std::size_t row = 0; row < drawn.prompts.size(); ++row) {
    const tasks::synthetic::IoiPrompt& prompt = drawn.prompts[row];
    const auto at_row = static_cast<std::int64_t>(row);
    const auto weight = [&](std::size_t place) {
      return weights[at_row][static_cast<std::int64_t>(place)].item<double>();
    };
    const auto along = [&](Token name) {
      return at::dot(written[at_row], unembedding[static_cast<std::int64_t>(name)]).item<double>();
    };
    found.to_io.push_back(weight(prompt.io_at));
    found.to_subject.push_back(weight(prompt.s1_at) + weight(prompt.s2_at));
    found.writes_io.push_back(along(prompt.io));
    found.writes_subject.push_back(along(prompt.subject));
  }
  return found;
}

// r over prompts of what the head writes along IO and its weight on IO. None where it does not read IO on any prompt:
// what is left of a softmax is rounding.
Correlation correlation_of_reading(const HeadAtEnd& head) {
  constexpr double least = 1e-3, nothing = std::numeric_limits<double>::quiet_NaN();
  if (std::ranges::none_of(head.to_io, [&](double weight) { return std::abs(weight) >= least; }))
    return {nothing, nothing, nothing};
  return correlation(head.to_io, head.writes_io);
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Of weights and products of weights: what is smaller is rounding of float32.
std::string weight_number(double value) {
  constexpr double rounding = 1e-6;
  return study_number(std::abs(value) < rounding ? 0 : value);
}

const char* direction(double change) { return change < 0 ? "falls" : "rises"; }

// "falls by 38 % (softmax, L1H0)"; without the verb where a sentence has said it.
std::string change_text(double change, const std::string& where, bool with_verb = true) {
  return fmt::format("{}by {} ({})", with_verb ? std::string(direction(change)) + " " : "",
                     pages::told_percent(std::abs(change)), where);
}

// What deletion of the head that helps most changes, the one whose chart is drawn, of up to three models; of more,
// those in which that is the most and the least.
struct BestHead {
  double change = 0;
  std::string where;
};
std::string headline_of(std::vector<BestHead> each) {
  const auto text = [](const BestHead& one, bool with_verb = true) {
    return change_text(one.change, one.where, with_verb);
  };
  if (each.size() > 3) {
    const auto [most, least] = std::ranges::minmax_element(each, {}, &BestHead::change);
    return fmt::format(
        "Without the head that helps most, of {} models the logit difference {} at most, and {} at "
        "least.",
        each.size(), text(*most), text(*least, direction(most->change) != std::string_view(direction(least->change))));
  }
  std::string all;
  for (std::size_t at = 0; at < each.size(); ++at)
    all += (at == 0                 ? " "
            : at + 1 == each.size() ? " and "
                                    : ", ") +
           text(each[at], at == 0 || direction(each[at].change) != std::string_view(direction(each[at - 1].change)));
  return "Without the head that helps most, the logit difference" + all + ".";
}

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

pages::Figure map_of_heads(const std::string& title, const at::Tensor& values, const std::string& caption) {
  tasks::translation::AlignmentFigure figure{
      .caption = caption, .source = {}, .target = {}, .panels = {{.title = {}, .weights = {}, .error_rate = {}}}};
  for (std::int64_t head = 0; head < values.size(1); ++head) figure.source.push_back("H" + std::to_string(head));
  for (std::int64_t layer = 0; layer < values.size(0); ++layer) {
    figure.target.push_back(head_layer_name(layer));
    for (std::int64_t head = 0; head < values.size(1); ++head)
      figure.panels.front().weights.push_back(
          static_cast<float>(std::clamp(values[layer][head].item<double>(), -1., 1.)));
  }
  return {.title = title, .html = tasks::translation::alignment_html(figure)};
}

// Row END of every head on one prompt.
pages::Figure weights_of_heads(const std::string& title, const interpret::IoiPrompts& drawn, const Observed& seen) {
  tasks::translation::AlignmentFigure figure{
      .caption = "A row for each head, on one prompt. Blue adds what it reads, orange subtracts it.",
      .source = {},
      .target = {},
      .panels = {{.title = {}, .weights = {}, .error_rate = {}}}};
  const tasks::synthetic::IoiPrompt& prompt = drawn.prompts.front();
  for (const Token token : prompt.tokens) figure.source.push_back(tasks::synthetic::ioi_tokenizer()->piece(token));
  for (const auto& [layer, weights] : seen.weights)
    for (std::int64_t head = 0; head < weights.size(1); ++head) {
      figure.target.push_back(head_name(layer, head));
      for (std::size_t place = 0; place < prompt.tokens.size(); ++place)
        figure.panels.front().weights.push_back(weights[0][head][static_cast<std::int64_t>(place)].item<float>());
    }
  return {.title = title, .html = tasks::translation::alignment_html(figure)};
}

pages::LineChart scatter(const std::string& title, const HeadAtEnd& head) {
  return {.title = title,
          .x = {.title = "weight from the last word"},
          .y = {.title = "what it writes · the name’s unembedding"},
          .series = {{.name = "indirect object", .x = head.to_io, .y = head.writes_io, .line = false},
                     {.name = "subject, weights of both places",
                      .x = head.to_subject,
                      .y = head.writes_subject,
                      .line = false}},
          .caption =
              "A point for each prompt. A head that copies writes along a name the more, the more it attends to it; "
              "one that deletes, the less."};
}

// Of each run; of a head, of the one without which the difference falls most. In the order in which they are given.
std::vector<StudyNumber> ioi_numbers() {
  return {{"accuracy", "share of the prompts whose name is right"},
          {"difference", "logit of the indirect object less that of the subject, mean"},
          {"change", "by what share the difference changes without the head"},
          {"weight_on_io", "mean weight from the last word to the indirect object"},
          {"weight_on_subject", "to both places of the subject"},
          {"correlation", "Pearson's r of the weight on the indirect object and what the head writes along it"},
          {"positivity", "Σλ / Σ|λ| of its circuit"},
          {"bare_positivity", "the same of values and output alone"},
          {"deletes_subject", "weight on the subject times positivity: below 0 it is deleted"}};
}

StudyResult run(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  for (const StudiedRun& each : runs) expect_ioi(each);
  const interpret::IoiPrompts drawn =
      interpret::draw_ioi_prompts(parameters.whole("prompts"), static_cast<std::uint64_t>(parameters.whole("seed")));
  StudyResult result;
  pages::TextTable summary{
      "Models",
      {"run", "mechanism", "right", "logit difference", "head", "without it", "weight on IO", "weight on S",
       "r over IO", "95 % from", "to", "positivity", "of values alone", "S × positivity"},
      {}};
  pages::TextTable heads{
      "Heads, from the one without which the difference falls most to that without which it rises most",
      {"run", "head", "without it", "weight on IO", "weight on S", "positivity", "of values alone", "IO × positivity",
       "S × positivity"},
      {}};
  pages::TextTable looks{
      "Where heads look in random tokens that come twice, in the same order",
      {"run", "head", "previous token", "its |a|", "duplicate token", "|a| of these", "induction", "|a| of it"},
      {}};
  pages::TextTable points{
      "Prompts", {"run", "head", "prompt", "weight on IO", "weight on S", "writes IO", "writes S"}, {}};
  std::vector<BestHead> changes;
  pages::TextTable source{"Positivity beside what the paper of Cog attention prints",
                          {"run", "head", "positivity"},
                          {{"Cog of the paper", "L9H4", "0.78"}, {"softmax of the paper", "L9H11", "-0.95"}}};
  std::vector<NumbersOfRuns> numbers;
  for (const StudyNumber& each : ioi_numbers()) numbers.push_back({.name = each.name, .values = {}});
  double null_deviation = 0;
  for (const StudiedRun& each : runs) {
    tasks::language::LanguageModelImpl& model = **each.model;
    const Observed seen = observe(model, drawn);
    const interpret::PathPatching patched = interpret::patch_paths(
        model, drawn.clean, drawn.corrupted, {.freeze_feed_forward = parameters.whole("freeze_feed_forward") != 0});
    const at::Tensor change = patched.change();
    const interpret::CopyingScores copying = interpret::copying_scores(model);
    null_deviation = copying.null_deviation;
    const std::int64_t half = std::min<std::int64_t>(model.longest_text() / 2, 64);
    const interpret::HeadScores scores =
        interpret::head_scores(model, interpret::repeated_tokens(model.options().vocabulary, 32, half,
                                                                 static_cast<std::uint64_t>(parameters.whole("seed"))));
    std::vector<std::pair<std::int64_t, std::int64_t>> ranked;
    for (std::int64_t layer = 0; layer < change.size(0); ++layer)
      for (std::int64_t head = 0; head < change.size(1); ++head)
        if (std::isfinite(change[layer][head].item<double>())) ranked.emplace_back(layer, head);
    const auto of = [](const at::Tensor& values, const std::pair<std::int64_t, std::int64_t>& at) {
      return values[at.first][at.second].item<double>();
    };
    std::sort(ranked.begin(), ranked.end(),
              [&](const auto& one, const auto& other) { return of(change, one) < of(change, other); });
    for (const auto& at : ranked) {
      const HeadAtEnd head = head_at_end(model, drawn, seen, at.first, at.second);
      heads.rows.push_back({each.name, head_name(at.first, at.second), percent(of(change, at)),
                            weight_number(mean_of(head.to_io)), weight_number(mean_of(head.to_subject)),
                            weight_number(of(copying.full, at)), weight_number(of(copying.bare, at)),
                            weight_number(mean_of(head.to_io) * of(copying.full, at)),
                            weight_number(mean_of(head.to_subject) * of(copying.full, at))});
      looks.rows.push_back(
          {each.name, head_name(at.first, at.second), weight_number(of(scores.previous.weight, at)),
           weight_number(of(scores.previous.magnitude, at)), weight_number(of(scores.duplicate.weight, at)),
           weight_number(of(scores.duplicate.magnitude, at)), weight_number(of(scores.induction.weight, at)),
           weight_number(of(scores.induction.magnitude, at))});
      for (std::size_t prompt = 0; prompt < drawn.prompts.size(); ++prompt)
        points.rows.push_back({each.name, head_name(at.first, at.second), std::to_string(prompt),
                               weight_number(head.to_io[prompt]), weight_number(head.to_subject[prompt]),
                               study_number(head.writes_io[prompt]), study_number(head.writes_subject[prompt])});
    }
    const auto& best = ranked.front();
    const std::string name = head_name(best.first, best.second);
    const HeadAtEnd head = head_at_end(model, drawn, seen, best.first, best.second);
    const Correlation r = correlation_of_reading(head);
    summary.rows.push_back(
        {each.name, model.options().mechanism, percent(seen.accuracy), study_number(seen.difference), name,
         percent(of(change, best)), weight_number(mean_of(head.to_io)), weight_number(mean_of(head.to_subject)),
         study_number(r.value), study_number(r.low), study_number(r.high), weight_number(of(copying.full, best)),
         weight_number(of(copying.bare, best)), weight_number(mean_of(head.to_subject) * of(copying.full, best))});
    const double weight_on_subject = mean_of(head.to_subject), positivity = of(copying.full, best);
    const double of_run[] = {seen.accuracy,       seen.difference,        of(change, best),
                             mean_of(head.to_io), weight_on_subject,      r.value,
                             positivity,          of(copying.bare, best), weight_on_subject * positivity};
    for (std::size_t number = 0; number < numbers.size(); ++number) numbers[number].values.push_back(of_run[number]);
    source.rows.push_back({each.name, name, study_number(positivity)});
    changes.push_back({of(change, best), each.name + ", " + name});
    result.charts.push_back(scatter(fmt::format("{}, {}: what it reads and what it writes", each.name, name), head));
    result.figures.push_back(map_of_heads(
        each.name + ": change of the logit difference", change.nan_to_num(0),
        "Path patching: the share by which the logit difference between the two names changes when a head's output at "
        "the last word is that of a prompt with other names. Rows are layers, columns heads, counted from 0."));
    result.figures.push_back(weights_of_heads(each.name + ": where the last word looks", drawn, seen));
  }
  result.numbers = std::move(numbers);
  result.answer = headline_of(std::move(changes));
  result.tables = {
      {"models", summary}, {"source", source}, {"heads", heads}, {"scores", looks}, {"prompts", points, false}};
  result.remarks = {
      {"Positivity is Σλ / Σ|λ| of the circuit from tokens read to logits written:",
       "1 copies what a head attends to, −1 deletes it. Under a negative weight the sign turns, and a head that copies "
       "deletes. "
       "0.78 is near copying, not near 0."},
      {"Chance:", fmt::format("values and output of random numbers have a positivity of 0 ± {:.2f}.", null_deviation)},
      {"A head is deleted, not explained:",
       "path patching tells that it matters, the weights what it reads, and only both with the circuit what it does. "
       "Heads that matter less "
       "may do the same."},
      {"IO × positivity, S × positivity:",
       "the weight on a name times what the circuit makes of it. Above 0 the name is copied, below 0 deleted: by a "
       "negative weight and a circuit that copies, or by a positive weight and one that deletes."},
      {"r is Pearson's, over prompts,",
       "its interval by Fisher's z; there is none for a head whose weight on IO is below 0.001 on every prompt. The "
       "authors' release divides a biased covariance by unbiased deviations, which "
       "makes it 1 % "
       "smaller at 100 prompts."},
      {"The heads of the paper of Cog attention (Lv et al. 2024):",
       "L9H4 (Cog) and L9H11 (softmax) of models with 12 layers of 12 heads; the release's map for Cog has L10H10 "
       "(about −37 %) above L9H4 (about −29 %). These are other models, whose numbers differ. That 0.78 is L9H4's and "
       "−0.95 L9H11's is inferred from its text."},
      {"The weight on S", "is the sum over both places where the subject is named."}};
  return result;
}

}  // namespace

StudyEntry ioi_study() {
  return {
      .name = "ioi",
      .title = "Who receives it: heads that tell the indirect object",
      .question =
          "Which heads tell “Mary” after “After Mary and John went to the park, John gave a ring to”, and do "
          "they copy or delete?",
      .parameters =
          {{{"prompts", {100}, {4, 10000}, "prompts, of pairs of names that training never shows"},
            {"seed", {0}, {0, 1e9}, "of the prompts"},
            {"freeze_feed_forward", {0}, {0, 1}, "1: heads speak directly alone, not through feed-forward networks"}}},
      .run = run,
      .numbers = ioi_numbers()};
}

}  // namespace cogwheel::inspect
