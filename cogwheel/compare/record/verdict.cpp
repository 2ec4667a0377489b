#include "cogwheel/compare/record/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "cogwheel/compare/record/width_series.h"
#include "cogwheel/core/wording/article.h"

namespace cogwheel::compare {
namespace {

using Parts = std::vector<VerdictPart>;

std::string family_in_sentence(const MechanismPlan& plan);

class Sentence {
 public:
  explicit Sentence(const Comparison& comparison) : comparison_(comparison) {}

  Sentence& say(std::string text) {
    if (!parts_.empty() && parts_.back().mechanism.empty())
      parts_.back().text += text;
    else
      parts_.push_back({std::move(text), ""});
    return *this;
  }
  Sentence& name(const std::string& mechanism) {
    parts_.push_back({name_in_sentence(comparison_, mechanism), mechanism});
    return *this;
  }
  // The mechanism or variant of a row, without its width.
  Sentence& family(const std::string& row) {
    parts_.push_back({family_in_sentence(*comparison_.plan(row)), row});
    return *this;
  }
  Sentence& append(const Parts& parts) {
    for (const VerdictPart& part : parts)
      if (part.mechanism.empty())
        say(part.text);
      else
        parts_.push_back(part);
    return *this;
  }
  // "a", "a and b", "a, b and c"; `item` says one of them.
  template <class Items, class Say>
  Sentence& list(const Items& items, Say item) {
    for (std::size_t index = 0; index < items.size(); ++index) {
      if (index > 0) say(index + 1 == items.size() ? " and " : ", ");
      item(items[index]);
    }
    return *this;
  }
  Parts finish() {
    say(".");
    char& first = parts_.front().text.front();
    first = static_cast<char>(std::toupper(static_cast<unsigned char>(first)));
    return std::move(parts_);
  }

 private:
  const Comparison& comparison_;
  Parts parts_;
};

using Rows = std::vector<const SummaryRow*>;

// Three decimals, or more where the difference would round to zero.
std::string amount(double difference) {
  const double size = std::abs(difference);
  if (size >= 0.001 || size == 0) return fmt::format("{:.3f}", size);
  return fmt::format("{:.2g}", size);
}

// " nats per character", or nothing for a plain number.
std::string unit(const Comparison& comparison) {
  const std::string& words = comparison.task.decisive().unit;
  return words.empty() ? "" : " " + words;
}

// Whether a word of a title is written small inside a sentence: softmax and differential are, Cog and Bahdanau are
// names. What is not listed keeps its capital.
bool is_ordinary(std::string_view word) {
  static constexpr std::string_view words[] = {"Centred", "Cubic",   "Decaying",  "Differential", "Gated",   "Linear",
                                               "Matrix",  "None",    "Norm",      "Polynomial",   "Sigmoid", "Simple",
                                               "Softmax", "Squared", "Symmetric", "Uniform"};
  if (word.ends_with(',')) word.remove_suffix(1);
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

std::string early(const Comparison& comparison) { return comparison.early_in_training() ? ", early in training," : ""; }

std::string seeds_text(const std::vector<std::int64_t>& seeds) {
  std::string text = seeds.size() == 1 ? "seed " : "seeds ";
  for (std::size_t index = 0; index < seeds.size(); ++index)
    text += (index == 0 ? "" : index + 1 == seeds.size() ? " and " : ", ") + std::to_string(seeds[index]);
  return text;
}

// A seed in which one of both is missing says nothing of it.
bool better_in_every_seed(const Comparison& comparison, const SummaryRow& row) {
  return std::all_of(comparison.settings.seeds.begin(), comparison.settings.seeds.end(), [&](std::int64_t seed) {
    const double* value = comparison.result(comparison.run(row.mechanism, seed));
    const double* base = comparison.result(comparison.run(comparison.base_of(row.mechanism), seed));
    return value != nullptr && base != nullptr && comparison.better(*value, *base);
  });
}

std::string data_and_budget(const Comparison& comparison) {
  return (comparison.data.bytes == 0            ? "on this task and budget"
          : comparison.task.counted == "tokens" ? "on this text and budget"
                                                : "on these data and budget") +
         early(comparison) + " ";
}

// For each mechanism " by 0.021 nats per character", with the unit only the first time.
class Amounts {
 public:
  explicit Amounts(const Comparison& comparison) : comparison_(comparison) {}
  std::string operator()(const SummaryRow& row) {
    const std::string text = fmt::format("by {}{}", amount(*row.difference), said_ ? "" : unit(comparison_));
    said_ = true;
    return text;
  }

 private:
  const Comparison& comparison_;
  bool said_ = false;
};

void say_with_amounts(Sentence& sentence, const Rows& rows, Amounts& amounts) {
  sentence.list(rows,
                [&](const SummaryRow* row) { sentence.name(row->mechanism).say(fmt::format(" ({})", amounts(*row))); });
}

void say_differences(Sentence& sentence, const Comparison& comparison, const Rows& better, const Rows& worse,
                     const Rows& open) {
  Amounts amounts(comparison);
  const runs::TaskDescription& task = comparison.task;
  sentence.say(data_and_budget(comparison));
  if (better.size() == 1) {
    const SummaryRow& row = *better.front();
    sentence.name(row.mechanism).say(" " + task.does_better + " than ").name(comparison.baseline);
    sentence.say(fmt::format("{} {}", better_in_every_seed(comparison, row) ? " in every seed," : "", amounts(row)));
  } else if (better.size() > 1) {
    say_with_amounts(sentence, better, amounts);
    sentence.say(" " + task.do_better + " than ").name(comparison.baseline);
  }
  if (better.empty() && !worse.empty()) {
    sentence.name(comparison.baseline).say(" " + task.does_better + " than ");
    say_with_amounts(sentence, worse, amounts);
  } else if (worse.size() == 1) {
    sentence.say("; ").name(worse.front()->mechanism).say(fmt::format(" does worse, {}", amounts(*worse.front())));
  } else if (worse.size() > 1) {
    sentence.say("; ");
    say_with_amounts(sentence, worse, amounts);
    sentence.say(" do worse");
  }
  if (better.empty() && worse.empty()) {
    sentence.name(comparison.baseline);
    for (const SummaryRow* row : open) sentence.say(row == open.back() ? " and " : ", ").name(row->mechanism);
    sentence.say(" cannot be told apart: no difference in " + task.decisive().title +
                 " is larger than seeds alone could cause");
  } else if (!open.empty()) {
    sentence.say(better.empty() || worse.empty() ? "; " : ", and ");
    sentence.list(open, [&](const SummaryRow* row) { sentence.name(row->mechanism); });
    sentence.say(" cannot be told apart from ").name(comparison.baseline);
  }
}

// Differences that are the same in every pair: nothing shows how far another seed would move them.
void say_without_spread(Sentence& sentence, const Comparison& comparison, const Rows& rows) {
  Amounts amounts(comparison);
  Rows better, worse, equal;
  for (const SummaryRow* row : rows)
    (*row->difference == 0 ? equal : comparison.better(*row->difference, 0) ? better : worse).push_back(row);
  const auto seeds = [&](const Rows& of) {
    const std::int64_t pairs = of.front()->pairs;
    const bool alike = std::all_of(of.begin(), of.end(), [&](const SummaryRow* row) { return row->pairs == pairs; });
    return !alike                                           ? std::string("in its seeds")
           : pairs == std::ssize(comparison.settings.seeds) ? std::string("in every seed")
                                                            : fmt::format("in {} seeds", pairs);
  };
  bool said = false;
  const auto clause = [&](const Rows& of, const std::string& does, const std::string& how) {
    if (of.empty()) return;
    if (said) sentence.say("; ");
    said = true;
    if (how.empty())
      sentence.list(of, [&](const SummaryRow* row) { sentence.name(row->mechanism); });
    else
      say_with_amounts(sentence, of, amounts);
    sentence.say(does).name(comparison.baseline).say(how + " " + seeds(of));
  };
  const runs::TaskDescription& task = comparison.task;
  clause(better, " " + (better.size() == 1 ? task.does_better : task.do_better) + " than ", " by the same amount");
  clause(worse, worse.size() == 1 ? " does worse than " : " do worse than ", " by the same amount");
  clause(equal, (equal.size() == 1 ? " has the same " : " have the same ") + task.decisive().title + " as ", "");
  sentence.say(", so that no spread tells how much is chance");
}

// Differences of two runs each: their significance is unknown.
void say_single_seed(Sentence& sentence, const Comparison& comparison, const Rows& rows) {
  const SummaryRow* best = *std::min_element(rows.begin(), rows.end(), [&](const SummaryRow* a, const SummaryRow* b) {
    return comparison.better(*a->difference, *b->difference);
  });
  const bool baseline_best = !comparison.better(*best->difference, 0);
  const runs::Measure& measure = comparison.task.decisive();
  const std::string has_the_best =
      fmt::format(" has the {} {}, ahead of ", measure.lower_is_better ? "lowest" : "highest", measure.title);
  Amounts amounts(comparison);
  sentence.say("in this one seed" + early(comparison) + " ");
  if (std::all_of(rows.begin(), rows.end(), [](const SummaryRow* row) { return *row->difference == 0; })) {
    sentence.name(comparison.baseline);
    for (const SummaryRow* row : rows) sentence.say(row == rows.back() ? " and " : ", ").name(row->mechanism);
    sentence.say(" have the same " + measure.title);
  } else if (baseline_best) {
    Rows behind, level;
    for (const SummaryRow* row : rows) (*row->difference == 0 ? level : behind).push_back(row);
    sentence.name(comparison.baseline).say(has_the_best);
    say_with_amounts(sentence, behind, amounts);
    if (!level.empty()) {
      sentence.say("; ").list(level, [&](const SummaryRow* row) { sentence.name(row->mechanism); });
      sentence.say((level.size() == 1 ? " has the same" : " have the same"));
    }
  } else {
    sentence.name(best->mechanism).say(has_the_best).name(comparison.baseline);
    sentence.say(fmt::format(" {}", amounts(*best)));
  }
  sentence.say("; one seed cannot tell a difference from chance");
}

// In quotation marks where a name has what separates names in a list.
std::string told_apart(const std::string& name) {
  const bool open = name.find(", ") != std::string::npos || name.find(" and ") != std::string::npos;
  return open ? "“" + name + "”" : name;
}

std::string family_in_sentence(const MechanismPlan& plan) {
  return plan.is_mechanism() ? title_in_sentence(plan.family_title()) : told_apart(plan.family_title());
}

// " at widths 64 (by 0.021 nats per character) and 128 (by 0.015)".
void say_widths_of(Sentence& sentence, const Comparison& comparison, const Rows& rows, Amounts& amounts, bool by) {
  sentence.say(rows.size() == 1 ? " at width " : " at widths ").list(rows, [&](const SummaryRow* row) {
    sentence.say(
        fmt::format("{}{}", comparison.plan(row->mechanism)->width, by ? fmt::format(" ({})", amounts(*row)) : ""));
  });
}

// What one mechanism does beside the baseline at each width, and what its gap does with size.
void say_series(Sentence& sentence, const Comparison& comparison, const WidthSeries& series, Amounts& amounts) {
  const runs::TaskDescription& task = comparison.task;
  Rows better, worse, open, untested;
  for (const WidthPoint& point : series.points) {
    const SummaryRow* const row = comparison.row(point.row);
    if (row == nullptr || !row->difference) continue;
    if (!row->p_adjusted)
      untested.push_back(row);
    else if (!row->clear())
      open.push_back(row);
    else
      (comparison.better(*row->difference, 0) ? better : worse).push_back(row);
  }
  const std::string base = family_in_sentence(*comparison.plan(comparison.baseline));
  const std::string& first = series.points.front().row;
  bool said = false;
  const auto clause = [&](const Rows& rows, const std::string& does, bool by) {
    if (rows.empty()) return;
    if (said)
      sentence.say(", ");
    else
      sentence.family(first);
    sentence.say(does + (said ? "" : " " + base));
    say_widths_of(sentence, comparison, rows, amounts, by);
    said = true;
  };
  clause(better, (said ? "" : " ") + task.does_better + " than", true);
  clause(worse, said ? "does worse" : " does worse than", true);
  clause(open, said ? "cannot be told apart" : " cannot be told apart from", false);
  clause(untested, said ? "differs without a test" : " differs from", true);
  if (!said) sentence.family(first).say(" finished at no width with the baseline");
  if (!series.gap) return;
  if (series.gap->change == GapChange::cannot_tell)
    sentence.say(", and whether its gap grows or shrinks with size cannot be told");
  else
    sentence.say(fmt::format(", and its gap {} with size", gap_name(series.gap->change)));
}

// Of one mechanism alone.
void say_one_at_widths(Sentence& sentence, const Comparison& comparison) {
  Rows rows;
  for (const SummaryRow& row : comparison.summary)
    if (row.mean) rows.push_back(&row);
  sentence.family(comparison.baseline).say(early(comparison));
  sentence.say(fmt::format(" came to {} of ", with_article(comparison.task.decisive().title)));
  sentence.list(rows, [&](const SummaryRow* row) {
    sentence.say(fmt::format("{:.3f}{} at width {}", *row->mean, row == rows.front() ? unit(comparison) : "",
                             comparison.plan(row->mechanism)->width));
  });
  sentence.say(", with nothing to compare it with");
}

void say_widths(Sentence& sentence, const Comparison& comparison) {
  Amounts amounts(comparison);
  sentence.say(data_and_budget(comparison));
  bool first = true;
  for (const WidthSeries& series : width_series(comparison)) {
    if (series.name == comparison.baseline_family()) continue;
    if (!first) sentence.say("; ");
    say_series(sentence, comparison, series, amounts);
    first = false;
  }
  if (comparison.settings.seeds.size() == 1) sentence.say("; one seed cannot tell a difference from chance");
}

}  // namespace

std::string name_in_sentence(const Comparison& comparison, const std::string& mechanism) {
  const MechanismPlan* plan = comparison.plan(mechanism);
  if (plan == nullptr) return title_in_sentence(mechanism);
  return plan->is_mechanism() ? title_in_sentence(plan->title) : told_apart(plan->title);
}

std::string baseline_in_sentence(const Comparison& comparison) {
  const MechanismPlan* const plan = comparison.plan(comparison.baseline);
  if (plan == nullptr || plan->series.empty()) return name_in_sentence(comparison, comparison.baseline);
  return family_in_sentence(*plan) + " of the same width";
}

std::string title_in_sentence(const std::string& title) {
  std::string name;
  for (std::size_t start = 0; start < title.size();) {
    const std::size_t end = std::min(title.find(' ', start), title.size());
    std::string word = title.substr(start, end - start);
    if (is_ordinary(word)) word.front() = static_cast<char>(std::tolower(word.front()));
    name += (start == 0 ? "" : " ") + word;
    start = end + 1;
  }
  return told_apart(name);
}

std::vector<Parts> missing_runs(const Comparison& comparison) {
  std::vector<Parts> clauses;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    const auto add = [&](const std::vector<std::int64_t>& seeds, const std::string& verb) {
      if (seeds.empty()) return;
      const bool all = seeds.size() == comparison.settings.seeds.size() && seeds.size() > 1;
      clauses.push_back({{name_in_sentence(comparison, plan.name), plan.name},
                         {fmt::format(" {} in {}", verb, all ? "every seed" : seeds_text(seeds)), ""}});
    };
    std::vector<std::int64_t> diverged, failed, interrupted;
    for (const std::int64_t seed : comparison.settings.seeds) {
      const RunResult* run = comparison.run(plan.name, seed);
      if (run == nullptr || run->status == RunStatus::interrupted)
        interrupted.push_back(seed);
      else if (run->status == RunStatus::diverged)
        diverged.push_back(seed);
      else if (run->status == RunStatus::failed)
        failed.push_back(seed);
    }
    add(diverged, "diverged");
    add(failed, "failed");
    if (!comparison.interrupted) add(interrupted, "did not finish");
  }
  return clauses;
}

std::vector<VerdictPart> verdict_parts(const Comparison& comparison) {
  Sentence sentence(comparison);
  if (comparison.interrupted)
    sentence.say(fmt::format("interrupted after {} of {} runs; so far: ", comparison.finished_runs(),
                             comparison.planned_runs()));

  Rows better, worse, open, without_spread, single;
  for (const SummaryRow& row : comparison.summary) {
    if (comparison.is_base(row.mechanism) || !row.difference) continue;
    if (row.without_spread())
      without_spread.push_back(&row);
    else if (!row.p_adjusted)
      single.push_back(&row);
    else if (row.clear())
      (comparison.better(*row.difference, 0) ? better : worse).push_back(&row);
    else
      open.push_back(&row);
  }
  const auto by_difference = [&](const SummaryRow* a, const SummaryRow* b) {
    return comparison.better(*a->difference, *b->difference);
  };
  std::sort(better.begin(), better.end(), by_difference);
  std::sort(worse.begin(), worse.end(), by_difference);

  const SummaryRow* base = comparison.row(comparison.baseline);
  const bool tested = !better.empty() || !worse.empty() || !open.empty();
  if (!comparison.settings.widths.empty() && (tested || !without_spread.empty() || !single.empty())) {
    say_widths(sentence, comparison);
  } else if (tested || !without_spread.empty()) {
    if (tested) say_differences(sentence, comparison, better, worse, open);
    sentence.say(tested && !without_spread.empty() ? "; " : tested ? "" : data_and_budget(comparison));
    if (!without_spread.empty()) say_without_spread(sentence, comparison, without_spread);
    if (!single.empty()) {
      sentence.say("; ").list(single, [&](const SummaryRow* row) { sentence.name(row->mechanism); });
      sentence.say(" finished in one seed, too few to tell");
    }
  } else if (!single.empty()) {
    say_single_seed(sentence, comparison, single);
  } else if (comparison.finished_runs() == 0) {
    sentence.say("no run finished, so there is nothing to compare");
  } else if (!comparison.settings.widths.empty() &&
             std::ssize(comparison.mechanisms) == std::ssize(comparison.settings.widths)) {
    say_one_at_widths(sentence, comparison);
  } else if (base == nullptr || !base->mean) {
    sentence.name(comparison.baseline).say(", the baseline, finished in no seed, so no difference can be given");
  } else {
    sentence.name(comparison.baseline)
        .say(fmt::format("{} came to {} of {:.3f}{}, {}", early(comparison),
                         with_article(comparison.task.decisive().title), *base->mean, unit(comparison),
                         comparison.mechanisms.size() == 1 ? "with nothing to compare it with"
                                                           : "and nothing else finished in a seed to compare it with"));
  }
  for (const Parts& clause : missing_runs(comparison)) sentence.say("; ").append(clause);
  return sentence.finish();
}

std::string verdict(const Comparison& comparison) {
  std::string text;
  for (const VerdictPart& part : verdict_parts(comparison)) text += part.text;
  return text;
}

}  // namespace cogwheel::compare
