#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/compare/record/results_csv.h"
#include "cogwheel/compare/record/verdict.h"
#include "cogwheel/compare/report/sections.h"
#include "cogwheel/pages/embedded.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/runs/configuration/run_config.h"

namespace cogwheel::compare {
namespace {

struct SeedDifference {
  std::int64_t seed;
  double value;
};

std::vector<SeedDifference> seed_differences(const Comparison& comparison, const std::string& mechanism) {
  std::vector<SeedDifference> differences;
  for (const RunResult* run : comparison.runs_of(mechanism)) {
    const double* own = comparison.result(run);
    const double* base = comparison.result(comparison.run(comparison.base_of(mechanism), run->seed));
    if (own != nullptr && base != nullptr) differences.push_back({run->seed, *own - *base});
  }
  return differences;
}

// The common axis of the whiskers of all rows: from −limit to limit, with ticks at ±tick.
struct Scale {
  double limit = 1, tick = 0.5;
  int digits = 1;

  explicit Scale(const Comparison& comparison) {
    double seeds = 0, ends = 0;
    for (const SummaryRow& row : comparison.summary) {
      for (const SeedDifference& difference : seed_differences(comparison, row.mechanism))
        seeds = std::max(seeds, std::abs(difference.value));
      if (row.difference) ends = std::max(ends, std::abs(*row.difference) + row.difference_interval.value_or(0));
    }
    if (seeds == 0) return;
    // Few seeds give wide intervals; beyond three times the range of the seeds these would only compress the rest.
    limit = 1.06 * std::max(seeds, std::min(ends, 3 * seeds));
    const double decade = std::pow(10, std::floor(std::log10(0.75 * limit)));
    for (const double step : {1.0, 2.0, 5.0})
      if (step * decade <= 0.75 * limit) tick = step * decade;
    digits = std::max(0, -static_cast<int>(std::floor(std::log10(tick) + 1e-9)));
  }

  double percent(double difference) const { return 50 + 50 * std::clamp(difference / limit, -1.0, 1.0); }
};

std::string whisker(const Comparison& comparison, const SummaryRow& row, const Scale& scale) {
  std::string marks = "<line class=\"zero\" x1=\"50%\" x2=\"50%\" y1=\"0\" y2=\"100%\"/>";
  if (comparison.is_base(row.mechanism))
    marks += "<circle class=\"mean\" cx=\"50%\" cy=\"50%\" r=\"3\"/>";
  else if (row.difference) {
    const double middle = *row.difference, half = row.difference_interval.value_or(0);
    if (half > 0) {
      marks += fmt::format("<line class=\"range\" x1=\"{:.2f}%\" x2=\"{:.2f}%\" y1=\"48%\" y2=\"48%\"/>",
                           scale.percent(middle - half), scale.percent(middle + half));
      for (const double end : {middle - half, middle + half})
        if (std::abs(end) <= scale.limit)
          marks += fmt::format("<line class=\"range\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y1=\"41%\" y2=\"55%\"/>",
                               scale.percent(end));
    }
    marks += fmt::format("<circle class=\"mean\" cx=\"{:.2f}%\" cy=\"48%\" r=\"5\"/>", scale.percent(middle));
    for (const SeedDifference& difference : seed_differences(comparison, row.mechanism))
      marks +=
          fmt::format("<circle class=\"seed\" cx=\"{:.2f}%\" cy=\"68%\" r=\"2.5\"/>", scale.percent(difference.value));
  }
  return marks;
}

std::string p_text(double p) { return p < 0.0001 ? "p < 0.0001" : fmt::format("p = {:.2g}", p); }

std::string reading(const Comparison& comparison, const SummaryRow& row) {
  const std::string words = reading_words(comparison, row);
  if (!row.difference || comparison.is_base(row.mechanism))
    return fmt::format("<span class=\"muted\">{}</span>", words);
  const std::string text =
      fmt::format("<span class=\"num\"><strong>{}</strong>", pages::signed_fixed(*row.difference, 4));
  if (!row.p_adjusted) return fmt::format("{}</span><small><b>{}</b>, no interval</small>", text, words);
  return text + fmt::format(
                    " <span class=\"muted\">± {}</span></span><small><b>{}</b>, <span class=\"num\">{}</span>"
                    "</small>",
                    pages::fixed(*row.difference_interval, 4), words, p_text(*row.p_adjusted));
}

// "0.99 ×" of the baseline's value.
std::string ratio(bool baseline, double value, double base, int digits) {
  if (baseline) return "baseline";
  return base > 0 && value > 0 ? fmt::format("{:.{}f} ×", value / base, digits) : "";
}

// What of a model is wider than of the baseline, so that parameters match; empty where nothing is.
std::string wider_part(const Comparison& comparison, const MechanismPlan& plan) {
  const MechanismPlan& base = *comparison.plan(comparison.base_of(plan.name));
  if (plan.feed_forward <= base.feed_forward) return "";
  if (!runs::balances_feed_forward(comparison.configuration.model)) return "wider layers";
  // A model of recurrent cells may be without.
  return base.feed_forward == 0 ? pages::counted(plan.feed_forward, "unit") + " of feed-forward" : "wider feed-forward";
}

std::string parameter_note(const Comparison& comparison, const MechanismPlan& plan) {
  const MechanismPlan& base = *comparison.plan(comparison.base_of(plan.name));
  std::string note =
      ratio(plan.name == base.name, static_cast<double>(plan.parameters), static_cast<double>(base.parameters), 3);
  if (plan.heads < base.heads && plan.heads * 2 == base.heads) note += "; half the heads";
  if (const std::string wider = wider_part(comparison, plan); !wider.empty()) note += "; " + wider;
  const double saved =
      100 * (1 - static_cast<double>(plan.parameters_unmatched) / static_cast<double>(plan.parameters));
  if (plan.parameters_unmatched != plan.parameters)
    note += fmt::format(", else {:.1f} % {}", std::abs(saved), saved > 0 ? "fewer" : "more");
  else if (plan.parameters < base.parameters && comparison.match != "parameters")
    note += fmt::format("; {:.1f} % saved",
                        100 * (1 - static_cast<double>(plan.parameters) / static_cast<double>(base.parameters)));
  return note;
}

std::string with_note(const std::string& value, const std::string& note) {
  return fmt::format("<span class=\"num\">{}</span><small>{}</small>", value, pages::escape_html(note));
}

// A column of its own has what nats come to in bits.
std::string bits_head(const Comparison& comparison) {
  const std::string bits = comparison.task.decisive().unit_in_bits();
  if (bits.empty()) return "";
  std::string words = pages::escape_html(pages::capitalised(bits));
  if (const std::size_t per = words.find(" per "); per != std::string::npos) words.replace(per + 4, 1, "<br>");
  return fmt::format("          <th role=\"columnheader\" scope=\"col\" class=\"right\">{}</th>\n", words);
}

std::string bits_cell(const Comparison& comparison, const SummaryRow& row) {
  const std::string bits = comparison.task.decisive().unit_in_bits();
  if (bits.empty()) return "";
  return fmt::format(
      "          <td role=\"cell\" data-label=\"{}\" class=\"right\">{}</td>\n",
      pages::escape_html(pages::capitalised(bits)),
      row.mean ? fmt::format("<span class=\"num\">{}</span>", pages::fixed(*row.mean / std::numbers::ln2, 3)) : "–");
}

// The task's further measures stand below the one that decides.
std::string further_measures(const Comparison& comparison, const SummaryRow& row) {
  std::string html;
  for (const runs::Measure& measure : comparison.task.measures)
    if (const double* value = runs::find_value(row.others, measure.name))
      html += fmt::format("<small>{} <span class=\"num\">{}</span>{}</small>", pages::escape_html(measure.title),
                          pages::fixed(*value, 4), measure.unit.empty() ? "" : " " + pages::escape_html(measure.unit));
  return html;
}

// The formula of the mechanism, and what else is the row's own.
std::string formula_text(const MechanismPlan& plan) {
  std::string text = plan.formula;
  for (const std::string& assignment : plan.set)
    if (!assignment.starts_with("model.mechanism=")) text += ", " + assignment;
  return text;
}

std::string row_html(const Comparison& comparison, const SummaryRow& row, const Scale& scale) {
  const MechanismPlan& plan = *comparison.plan(row.mechanism);
  const bool baseline = comparison.is_base(row.mechanism);
  const RunMeans means = run_means(comparison, row.mechanism),
                 base = run_means(comparison, comparison.base_of(row.mechanism));
  std::string mean = "<span class=\"muted\">no run finished</span>", rate = "–", memory = "–";
  if (row.mean) {
    mean = fmt::format("<span class=\"num\">{}{}</span>", pages::fixed(*row.mean, 4),
                       row.interval ? fmt::format(" <span class=\"muted\">± {}</span>", pages::fixed(*row.interval, 4))
                       : row.seeds > 1 ? " <span class=\"muted\">in every seed</span>"
                                       : "") +
           further_measures(comparison, row);
    std::string rate_note = ratio(baseline, means.tokens_per_second, base.tokens_per_second, 2);
    if (comparison.match == "time") rate_note += "; " + pages::rounded_count(std::llround(means.tokens)) + " seen";
    rate = with_note(pages::grouped(std::llround(means.tokens_per_second)), rate_note);
    memory = means.peak_memory_bytes ? with_note(pages::byte_size(*means.peak_memory_bytes),
                                                 ratio(baseline, static_cast<double>(*means.peak_memory_bytes),
                                                       static_cast<double>(base.peak_memory_bytes.value_or(0)), 2))
                                     : "<span class=\"muted\">not measured</span>";
  }
  return pages::fill_template(
      pages::embedded::table_row_html,
      {{"class", baseline ? " class=\"baseline\"" : ""},
       {"counted", pages::escape_html(pages::capitalised(comparison.task.counted))},
       {"series", series_property(comparison, row.mechanism)},
       {"title", pages::escape_html(plan.title)},
       {"formula", pages::escape_html(formula_text(plan))},
       {"measure", pages::escape_html(pages::capitalised(comparison.task.decisive().title))},
       {"mean", mean},
       {"baseline", pages::escape_html(baseline_in_sentence(comparison))},
       {"low", pages::signed_fixed(-scale.limit, scale.digits + 1)},
       {"high", pages::signed_fixed(scale.limit, scale.digits + 1)},
       {"whisker", whisker(comparison, row, scale)},
       {"reading", reading(comparison, row)},
       {"bits", bits_cell(comparison, row)},
       {"rate", rate},
       {"parameters", with_note(pages::grouped(plan.parameters), parameter_note(comparison, plan))},
       {"memory", memory}});
}

std::string unfinished_html(const Comparison& comparison, const RunResult& run) {
  const MechanismPlan* plan = comparison.plan(run.mechanism);
  const std::int64_t steps = run.tokens / std::max<std::int64_t>(1, comparison.tokens_per_step());
  return pages::fill_template(pages::embedded::unfinished_row_html,
                              {{"series", series_property(comparison, run.mechanism)},
                               {"title", pages::escape_html(plan->title)},
                               {"seed", std::to_string(run.seed)},
                               {"status", std::string(status_name(run.status))},
                               {"steps", pages::counted(steps, "step")},
                               {"message", pages::escape_html(run.message)}});
}

}  // namespace

namespace {

// "8.3 % fewer", "2.0 % more", or what says that both are equal.
std::string relative(double value, double base, const char* less, const char* equal) {
  const double change = 100 * (value / base - 1);
  if (std::abs(change) < 0.05) return equal;
  return fmt::format("{:.1f} % {}", std::abs(change), change < 0 ? less : "more");
}

// Parameters and time of mechanisms whose keys are their queries, beside a baseline whose are not.
std::string tied_keys_text(const Comparison& comparison) {
  std::string text;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    const MechanismPlan& base = *comparison.plan(comparison.base_of(plan.name));
    if (!ties_keys(plan.mechanism()) || ties_keys(base.mechanism())) continue;
    const double rate = run_means(comparison, plan.name).tokens_per_second,
                 base_rate = run_means(comparison, base.name).tokens_per_second;
    text += fmt::format("{}{} has {} parameters at the same widths{}", text.empty() ? "" : " ",
                        pages::escape_html(plan.title),
                        relative(static_cast<double>(plan.parameters_unmatched), static_cast<double>(base.parameters),
                                 "fewer", "as many"),
                        plan.feed_forward > base.feed_forward ? ", which its wider feed-forward spends here" : "");
    if (rate > 0 && base_rate > 0)
      text += fmt::format("; training took {} time per {}", relative(base_rate, rate, "less", "as much"),
                          pages::escape_html(comparison.data.item()));
    text += ".";
  }
  return text;
}

}  // namespace

std::string reading_words(const Comparison& comparison, const SummaryRow& row) {
  if (comparison.is_base(row.mechanism)) return "the baseline";
  if (!row.difference) return "not known";
  if (row.without_spread()) return "The same in " + pages::counted(row.pairs, "seed");
  if (!row.p_adjusted) return "One seed";
  if (!row.clear()) return "Cannot be told apart";
  return *row.difference < 0 ? "Clearly lower" : "Clearly higher";
}

std::string table_html(const Comparison& comparison) {
  const Scale scale(comparison);
  std::string rows;
  for (const SummaryRow& row : comparison.summary) {
    rows += row_html(comparison, row, scale);
    for (const RunResult* run : comparison.runs_of(row.mechanism))
      if (run->status != RunStatus::done) rows += unfinished_html(comparison, *run);
  }
  const auto place = [&](double difference) { return fmt::format("{:.2f}%", scale.percent(difference)); };
  return pages::fill_template(pages::embedded::table_html,
                              {{"baseline", pages::escape_html(baseline_in_sentence(comparison))},
                               {"measure", pages::escape_html(pages::capitalised(comparison.task.decisive().title))},
                               {"bits", bits_head(comparison)},
                               {"counted", pages::escape_html(pages::capitalised(comparison.task.counted))},
                               {"low_end", comparison.task.decisive().lower_is_better ? "← better" : "← worse"},
                               {"high_end", comparison.task.decisive().lower_is_better ? "worse →" : "better →"},
                               {"left", place(-scale.tick)},
                               {"left_tick", pages::signed_fixed(-scale.tick, scale.digits)},
                               {"right", place(scale.tick)},
                               {"right_tick", pages::signed_fixed(scale.tick, scale.digits)},
                               {"rows", rows}});
}

namespace {

std::string note(const std::string& title, const std::string& text) {
  return fmt::format("      <p><strong>{}</strong> {}</p>\n", title, text);
}

// How to read the differences, and why they are as sharp as they are.
std::string difference_notes(const Comparison& comparison) {
  std::int64_t pairs = 0, tests = 0, without_spread = 0;
  double confidence = 0;
  for (const SummaryRow& row : comparison.summary) {
    pairs = std::max(pairs, row.pairs);
    without_spread += row.without_spread();
    if (!row.p_adjusted) continue;
    ++tests;
    confidence = std::max(confidence, *row.difference_confidence);
  }
  const std::string no_spread =
      without_spread == 0
          ? ""
          : note(
                "The same in every seed, no interval.",
                "Where a difference is the same in all its seeds, nothing shows how far it would move with another, so "
                "there is no interval and no test, and it is not called clear. This can happen where few items are "
                "measured, or where all are right.");
  if (tests == 0) {
    if (pairs == 0) return "";
    if (without_spread > 0) return no_spread;
    return note("One seed, no interval.",
                "The dots show the difference of two runs each. How far they would move with another "
                "seed is not known, so none is called clear.");
  }
  const bool is_loss = comparison.task.decisive().title.ends_with("loss");
  std::string html = note(
      "How to read the dots.",
      fmt::format("Large dot: mean difference over {}; rings: each seed; line: its interval.{}",
                  pages::counted(pairs, "paired seed"),
                  tests == 1 ? " The interval is a 95 % <i>t</i> interval."
                             : fmt::format(" It is a <i>t</i> interval widened for {} comparisons after Holm, up to "
                                           "{:.1f} %, so that it leaves out 0 exactly where the words say “clearly” "
                                           "and <i>p</i> is below 0.05: the chance that any “clearly” is "
                                           "mistaken is at most 5 %.",
                                           pages::number_word(tests), 100 * confidence)));
  return html + no_spread +
         note(fmt::format("Why the difference is sharper than the {}.", is_loss ? "loss" : "mean"),
              fmt::format("All mechanisms share seed and data order, so what varies from seed to seed cancels in the "
                          "difference. {} means ± 95 % (<i>t</i>, {}); <i>p</i> is two-sided, of the paired "
                          "<i>t</i> test{}.",
                          is_loss ? "Losses are" : "Numbers are", pages::counted(pairs - 1, "degree") + " of freedom",
                          tests == 1 ? "" : ", corrected after Holm"));
}

}  // namespace

std::string notes_html(const Comparison& comparison) {
  const std::string tied = tied_keys_text(comparison);
  return difference_notes(comparison) + (tied.empty() ? "" : note("What keys that are queries save.", tied));
}

}  // namespace cogwheel::compare
