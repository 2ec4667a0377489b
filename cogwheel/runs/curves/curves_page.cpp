#include "cogwheel/runs/curves/curves_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/pages/document.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/pages/line_chart.h"
#include "cogwheel/runs/curves/thinned_curve.h"
#include "cogwheel/runs/default_task.h"
#include "cogwheel/runs/task_entry.h"

namespace cogwheel::runs {
namespace {

const std::string final_value_prefix = "final_", mean_prefix = "mean_";

// What charts run over: step, tokens or hours, of all runs in one unit.
struct CurveAxis {
  const char* name;  // of the class of its charts
  std::string title;
  std::vector<double> RunCurve::*values;
  double scale;
};

std::array<CurveAxis, 3> axes_of(const std::vector<RunCurve>& runs) {
  double most = 0;
  std::string counted;
  for (const RunCurve& run : runs) {
    if (!run.tokens.empty()) most = std::max(most, run.tokens.back());
    const std::string of_run = find_task(run.config.task.name).description.counted;
    counted = counted.empty() || counted == of_run ? of_run : "items";
  }
  const auto [scale, unit] = most >= 1e10  ? std::pair(1e-9, "billions of ")
                             : most >= 1e7 ? std::pair(1e-6, "millions of ")
                                           : std::pair(1.0, "");
  return {CurveAxis{"steps", "steps", &RunCurve::steps, 1},
          CurveAxis{"tokens", unit + counted, &RunCurve::tokens, scale},
          CurveAxis{"hours", "hours of training", &RunCurve::seconds, 1 / 3600.0}};
}

// How a number is shown: training's own, a measure of a task, or another by its key.
struct NumberText {
  std::string title, unit;
  bool from_zero = false;    // what matters is how large it is, not how it changes
  bool starts_high = false;  // a loss: the first steps' fall would take most of the chart
  bool measure = false;      // of the task, on what is held out
};

// As the task of the run describes itself: of a language model by the kind of its tokens.
TaskDescription description_of(const RunConfig& config) {
  const TaskDescription& by_name = find_task(config.task.name).description;
  if (config.task.name != TaskOptions().name) return by_name;
  const std::string& kind = config.data.tokenizer;
  return describe_language_modelling(kind == "byte" || kind == "character" ? kind : "token");
}

NumberText text_of_number(const std::string& name, const std::vector<RunCurve>& runs) {
  for (const RunCurve& run : runs)
    for (const Measure& measure : description_of(run.config).measures)
      if (measure.name == name) return {measure.title, measure.unit, false, measure.lower_is_better, true};
  if (name == "train_loss") return {"training loss", "mean since the report before", false, true};
  if (name == "gradient_norm") return {"gradient norm", "before clipping", true, true};
  if (name == "update_over_weight") return {"update over weight", "", true, false};
  if (name == "tokens_per_second") return {"speed", "per second, since the report before", true, false};
  if (name == "waiting_seconds") return {"waiting for data", "seconds", true, false};
  const bool of_heads = name.starts_with(mean_prefix);
  std::string words = of_heads ? name.substr(mean_prefix.size()) : name;
  std::replace(words.begin(), words.end(), '_', ' ');
  return {words, of_heads ? "mean over all heads" : "", false, false};
}

constexpr std::size_t chart_parts = 400;  // of a line, in each of which its lowest and highest point are drawn

// The highest value that is drawn, where those of the first twentieth of a run would take a third of the chart: beyond
// it no value is cut off.
std::optional<double> top_of(const std::string& name, const std::vector<RunCurve>& runs) {
  double highest = -std::numeric_limits<double>::infinity(), above = highest;
  for (const RunCurve& run : runs) {
    const CurveNumber* number = run.find(name);
    if (number == nullptr) continue;
    for (std::size_t index = 0; index < number->values.size(); ++index)
      if (const double value = number->values[index]; std::isfinite(value)) {
        above = std::max(above, value);
        if (20 * index >= number->values.size() || number->values.size() < 40) highest = std::max(highest, value);
      }
  }
  if (!std::isfinite(highest) || highest <= 0 || above < 1.5 * highest) return std::nullopt;
  return highest + 0.05 * std::abs(highest);
}

// Where an event lies on an axis: between the reports around it.
double place_on(const RunCurve& run, const CurveAxis& axis, double step) {
  const std::vector<double>& values = run.*axis.values;
  const auto after = std::lower_bound(run.steps.begin(), run.steps.end(), step);
  if (run.steps.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto index = static_cast<std::size_t>(after - run.steps.begin());
  const double last = index < run.steps.size() ? run.steps[index] : run.steps.back(),
               first = index > 0 ? run.steps[index - 1] : 0,
               high = index < values.size() ? values[index] : values.back(), low = index > 0 ? values[index - 1] : 0;
  return axis.scale * (last > first ? low + (high - low) * std::min(1.0, (step - first) / (last - first)) : high);
}

struct NumberedEvent {
  const RunCurve* run;
  const RunEvent* event;
};

std::vector<NumberedEvent> events_of(const std::vector<RunCurve>& runs) {
  std::vector<NumberedEvent> events;
  for (const RunCurve& run : runs)
    for (const RunEvent& event : run.events) events.push_back({&run, &event});
  return events;
}

pages::LineChart chart_of(const std::string& name, const NumberText& text, const CurveAxis& axis,
                          const std::vector<RunCurve>& runs, const std::vector<NumberedEvent>& events) {
  pages::LineChart chart{.title = pages::capitalised(text.title),
                         .x = {.title = axis.title},
                         .y = {.title = text.unit.empty() ? text.title : text.title + ", " + text.unit},
                         .series = {}};
  if (text.from_zero) chart.y.min = 0;
  if (text.starts_high) chart.y.max = top_of(name, runs);
  for (std::size_t index = 0; index < runs.size(); ++index) {
    const CurveNumber* number = runs[index].find(name);
    if (number == nullptr) continue;
    constexpr std::size_t few = 40;
    pages::ChartSeries series{.name = runs[index].name, .x = {}, .y = {}};
    for (const std::size_t point : thinned(number->values, chart_parts)) {
      series.x.push_back(axis.scale * (runs[index].*axis.values)[point]);
      series.y.push_back(number->values[point]);
    }
    if (series.x.empty()) continue;
    series.points = series.x.size() <= few;
    series.property = fmt::format("--series-{}", 1 + index % 7);  // the same in every chart
    chart.series.push_back(std::move(series));
  }
  for (std::size_t index = 0; index < events.size(); ++index)
    chart.marks.push_back({pages::ChartMark::Axis::x,
                           place_on(*events[index].run, axis, static_cast<double>(events[index].event->step)),
                           std::to_string(index + 1)});
  return chart;
}

// The charts of a number over each axis, of which the switch of the page shows one.
pages::Figure figure_of(const std::string& name, const std::vector<RunCurve>& runs,
                        const std::vector<NumberedEvent>& events) {
  const NumberText text = text_of_number(name, runs);
  pages::Figure figure{.title = pages::capitalised(text.title), .html = {}};
  for (const CurveAxis& axis : axes_of(runs))
    figure.html += fmt::format("<div class=\"by-{}\">{}</div>\n", axis.name,
                               line_chart_figure(chart_of(name, text, axis, runs, events)).html);
  if (text.starts_high && top_of(name, runs))
    figure.caption = "The chart is cut at what came after the first twentieth.";
  return figure;
}

pages::Figure axis_switch(const std::vector<RunCurve>& runs) {
  std::string choices;
  for (const CurveAxis& axis : axes_of(runs))
    choices += fmt::format(
        "<input type=\"radio\" name=\"axis\" id=\"by-{0}\" value=\"{0}\"{1}><label for=\"by-{0}\">by {2}</label>\n",
        axis.name, choices.empty() ? " checked" : "", pages::escape_html(axis.title));
  return {
      .title = "Over what",
      .html = "<fieldset class=\"switch axes\"><legend class=\"visually-hidden\">What the charts run over</legend>\n" +
              choices + "</fieldset>"};
}

// Measures that are reported at the end have no curve: the table has them.
std::vector<std::string> numbers_of(const std::vector<RunCurve>& runs) {
  std::vector<std::string> names;
  for (const RunCurve& run : runs)
    for (const CurveNumber& number : run.numbers)
      if (!number.name.starts_with(final_value_prefix) &&
          std::find(names.begin(), names.end(), number.name) == names.end() &&
          std::any_of(number.values.begin(), number.values.end(), [](double value) { return std::isfinite(value); }))
        names.push_back(number.name);
  // What was learned before how fast: losses, then the task's measures, then the rest as reports have it.
  const auto rank = [&](const std::string& name) {
    if (name == "train_loss") return 0;
    return text_of_number(name, runs).measure ? 1 : name.starts_with(mean_prefix) ? 3 : 2;
  };
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return names;
}

struct BestValue {
  double value, step;
};

// Of the whole held-out data at the end of a run, where it has that; else of its curve.
std::optional<BestValue> best_of(const RunCurve& run, const Measure& measure) {
  std::optional<BestValue> best;
  for (const std::string& name : {final_value_prefix + measure.name, measure.name}) {
    const CurveNumber* number = run.find(name);
    if (number == nullptr) continue;
    for (std::size_t index = 0; index < number->values.size(); ++index)
      if (const double value = number->values[index];
          std::isfinite(value) && (!best || measure.better(value, best->value)))
        best = {value, run.steps[index]};
    if (best) return best;
  }
  return best;
}

std::optional<double> last_of(const RunCurve& run, std::string_view name) {
  const CurveNumber* number = run.find(name);
  if (number == nullptr) return std::nullopt;
  for (auto value = number->values.rbegin(); value != number->values.rend(); ++value)
    if (std::isfinite(*value)) return *value;
  return std::nullopt;
}

double steps_of(const RunCurve& run) { return run.steps.empty() ? 0 : run.steps.back(); }

// At the speed of the last reports.
std::string left_text(const RunCurve& run) {
  const double left = static_cast<double>(run.config.training.steps) - steps_of(run);
  if (left <= 0) return "finished";
  if (run.steps.empty()) return "not known";
  const std::size_t recent = run.steps.size() > 20 ? run.steps.size() - 20 : 0;
  const double steps = run.steps.back() - (recent > 0 ? run.steps[recent] : 0),
               seconds = run.seconds.back() - (recent > 0 ? run.seconds[recent] : 0);
  return steps > 0 ? duration_text(left * seconds / steps) : "not known";
}

pages::TextTable runs_table(const std::vector<RunCurve>& runs) {
  pages::TextTable table{.title = {},
                         .columns = {"run", "mechanism", "parameters", "steps", "hours", "training loss", "best so far",
                                     "per second", "left"},
                         .rows = {}};
  for (const RunCurve& run : runs) {
    const Measure& measure = find_task(run.config.task.name).description.decisive();
    const auto best = best_of(run, measure);
    const auto loss = last_of(run, "train_loss"), speed = last_of(run, "tokens_per_second");
    table.rows.push_back({run.name, common(run.config.model).mechanism, pages::rounded_count(run.parameters),
                          fmt::format("{} of {}", pages::grouped(std::llround(steps_of(run))),
                                      pages::grouped(run.config.training.steps)),
                          pages::fixed(run.seconds.empty() ? 0 : run.seconds.back() / 3600, 2),
                          loss ? pages::fixed(*loss, 4) : "none",
                          best ? fmt::format("{} {} at step {}", measure.title, pages::fixed(best->value, 4),
                                             pages::grouped(std::llround(best->step)))
                               : "none",
                          speed ? pages::grouped(std::llround(*speed)) : "none", left_text(run)});
  }
  return table;
}

pages::DocumentSection events_section(const std::vector<NumberedEvent>& events) {
  pages::DocumentSection section{
      .title = "What happened",
      .lead =
          "Changes of the configuration, and spikes after which a run went back to an earlier checkpoint. Lines "
          "across the charts have these numbers."};
  pages::TextTable table{.title = {}, .columns = {"", "run", "after step", "what", ""}, .rows = {}};
  for (std::size_t index = 0; index < events.size(); ++index)
    table.rows.push_back({std::to_string(index + 1), events[index].run->name, pages::grouped(events[index].event->step),
                          events[index].event->kind == RunEvent::Kind::spike ? "spike" : "changed",
                          events[index].event->text});
  section.tables.push_back(std::move(table));
  return section;
}

// The last samples of a run, for each prompt.
pages::DocumentSection samples_section(const std::vector<RunCurve>& runs) {
  constexpr std::size_t most = 12;
  pages::DocumentSection section{.title = "Samples", .lead = "Prompts in grey, the newest first.", .figures = {}};
  for (std::size_t index = 0; index < runs.size(); ++index) {
    const RunCurve& run = runs[index];
    if (run.samples.empty()) continue;
    std::string html;
    const std::size_t shown = std::min(most, run.samples.size());
    for (std::size_t back = 1; back <= shown; ++back) {
      const RunSample& sample = run.samples[run.samples.size() - back];
      html += fmt::format(
          "<figure style=\"--series:var(--series-{})\"><figcaption class=\"series\">{}, step {}</figcaption><pre>\n"
          "<b>{}</b>{}</pre></figure>\n",
          1 + index % 7, pages::escape_html(run.name), pages::grouped(sample.step), pages::escape_html(sample.prompt),
          pages::escape_html(sample.text));
    }
    section.figures.push_back(
        {.title = run.name,
         .html = "<div class=\"samples\">\n" + html + "</div>",
         .caption = shown < run.samples.size()
                        ? fmt::format("The last {} of {}; samples.jsonl in the run's folder has all.", shown,
                                      pages::grouped(std::ssize(run.samples)))
                        : ""});
  }
  return section;
}

std::string reports_text(const std::vector<RunCurve>& runs) {
  std::int64_t reports = 0;
  for (const RunCurve& run : runs) reports += std::ssize(run.steps);
  return pages::counted(reports, "report");
}

}  // namespace

std::string curves_verdict(const std::vector<RunCurve>& runs) {
  const Measure measure = description_of(runs.front().config).decisive();
  const auto same_data = [&](const RunCurve& run) {
    const DataOptions &one = run.config.data, &other = runs.front().config.data;
    return run.config.task.name == runs.front().config.task.name && one.sha256 == other.sha256 &&
           one.tokenizer == other.tokenizer;
  };
  if (!std::all_of(runs.begin(), runs.end(), same_data))
    return fmt::format("{} runs on data that differ: their losses cannot be compared.", runs.size());
  const RunCurve* best = nullptr;
  for (const RunCurve& run : runs) {
    const auto value = best_of(run, measure);
    if (value && (best == nullptr || measure.better(value->value, best_of(*best, measure)->value))) best = &run;
  }
  if (best == nullptr) {
    const RunCurve& run =
        *std::find_if(runs.begin(), runs.end(), [](const RunCurve& each) { return !each.steps.empty(); });
    const auto loss = last_of(run, "train_loss");
    return fmt::format("After {} of {} steps, {} has a training loss of {}, and nothing is measured yet.",
                       pages::grouped(std::llround(steps_of(run))), pages::grouped(run.config.training.steps), run.name,
                       loss ? pages::fixed(*loss, 4) : "nothing finite");
  }
  const BestValue value = *best_of(*best, measure);
  const std::string number =
      fmt::format("{}{}{}", pages::fixed(value.value, 4), measure.unit.empty() ? "" : " ", measure.unit);
  if (runs.size() == 1)
    return fmt::format("After {} of {} steps, the best {} of {} is {}, of step {}.",
                       pages::grouped(std::llround(steps_of(*best))), pages::grouped(best->config.training.steps),
                       measure.title, best->name, number, pages::grouped(std::llround(value.step)));
  return fmt::format("Of {} runs, {} has the best {} so far, {} after {} steps.", pages::number_word(std::ssize(runs)),
                     best->name, measure.title, number, pages::grouped(std::llround(value.step)));
}

std::string curves_page(const std::vector<RunCurve>& runs, const std::string& command, const std::string& created,
                        const std::string& version) {
  const std::vector<NumberedEvent> events = events_of(runs);
  pages::DocumentSection curves{.title = "Curves",
                                .lead = fmt::format("Of more than {} reports, the lowest and the highest of every few "
                                                    "are drawn, so that no peak is lost.",
                                                    pages::grouped(2 * chart_parts)),
                                .figures = {axis_switch(runs)}};
  for (const std::string& name : numbers_of(runs)) curves.figures.push_back(figure_of(name, runs, events));
  double seconds = 0;
  for (const RunCurve& run : runs) seconds += run.seconds.empty() ? 0 : run.seconds.back();
  pages::Document document{.title = runs.size() == 1 ? runs.front().name : pages::counted(std::ssize(runs), "run"),
                           .kind = "Cogwheel curves",
                           .created = created,
                           .verdict = curves_verdict(runs),
                           .facts = {{"Runs", pages::grouped(std::ssize(runs)), reports_text(runs)},
                                     {"Training", duration_text(seconds), "evaluations are not counted"}},
                           .sections = {std::move(curves), {.title = "Runs", .tables = {runs_table(runs)}}},
                           .command = command,
                           .written_by = "cogwheel curves",
                           .version = version};
  if (!events.empty()) document.sections.push_back(events_section(events));
  if (std::any_of(runs.begin(), runs.end(), [](const RunCurve& run) { return !run.samples.empty(); }))
    document.sections.push_back(samples_section(runs));
  return pages::document_page(document);
}

}  // namespace cogwheel::runs
