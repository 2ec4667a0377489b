#include "cogwheel/research/reproduce/study_store.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/runs/json_fields.h"
#include "cogwheel/runs/run_folder.h"

namespace cogwheel::reproduce {
namespace {

namespace fs = std::filesystem;

constexpr const char *kept_studies_folder = "studies", *shown_file = "shown.json";
constexpr std::size_t digits_of_study = 24;

struct KeptAxis {
  std::string title;
  bool logarithmic = false;
  std::optional<double> min, max;
};

constexpr auto fields(const KeptAxis&) {
  return std::tuple(runs::field("title", &KeptAxis::title), runs::field("logarithmic", &KeptAxis::logarithmic),
                    runs::field("min", &KeptAxis::min), runs::field("max", &KeptAxis::max));
}

// In a file; a coordinate that is not finite is null there.
struct KeptSeries {
  std::string name;
  std::vector<std::optional<double>> x, y, error;
  bool line = true, points = true, expected = false;
  std::string property;
};

constexpr auto fields(const KeptSeries&) {
  return std::tuple(runs::field("name", &KeptSeries::name), runs::field("x", &KeptSeries::x),
                    runs::field("y", &KeptSeries::y), runs::field("error", &KeptSeries::error),
                    runs::field("line", &KeptSeries::line), runs::field("points", &KeptSeries::points),
                    runs::field("expected", &KeptSeries::expected), runs::field("property", &KeptSeries::property));
}

struct KeptMark {
  bool across = false;  // at a y
  double value = 0;
  std::string text;
};

constexpr auto fields(const KeptMark&) {
  return std::tuple(runs::field("across", &KeptMark::across), runs::field("value", &KeptMark::value),
                    runs::field("text", &KeptMark::text));
}

struct KeptChart {
  std::string title;
  KeptAxis x, y;
  std::vector<KeptSeries> series;
  std::vector<KeptMark> marks;
  std::string caption;
};

constexpr auto fields(const KeptChart&) {
  return std::tuple(runs::field("title", &KeptChart::title), runs::field("x", &KeptChart::x),
                    runs::field("y", &KeptChart::y), runs::field("series", &KeptChart::series),
                    runs::field("marks", &KeptChart::marks), runs::field("caption", &KeptChart::caption));
}

std::vector<std::optional<double>> finite_or_none(const std::vector<double>& values) {
  std::vector<std::optional<double>> kept;
  for (const double value : values) kept.push_back(std::isfinite(value) ? std::optional(value) : std::nullopt);
  return kept;
}

std::vector<double> or_nan(const std::vector<std::optional<double>>& kept) {
  std::vector<double> values;
  for (const auto& value : kept) values.push_back(value.value_or(std::numeric_limits<double>::quiet_NaN()));
  return values;
}

struct KeptNumbers {
  std::string name;
  std::optional<double> place;
  std::vector<std::optional<double>> values;
};

constexpr auto fields(const KeptNumbers&) {
  return std::tuple(runs::field("name", &KeptNumbers::name), runs::field("place", &KeptNumbers::place),
                    runs::field("values", &KeptNumbers::values));
}

struct Shown {
  std::string answer;
  std::vector<std::string> notes, checkpoints;
  std::vector<KeptChart> charts;
  std::vector<KeptNumbers> numbers;
};

constexpr auto fields(const Shown&) {
  return std::tuple(runs::field("answer", &Shown::answer), runs::field("notes", &Shown::notes),
                    runs::field("checkpoints", &Shown::checkpoints), runs::field("charts", &Shown::charts),
                    runs::field("numbers", &Shown::numbers));
}

KeptAxis kept(const pages::ChartAxis& axis) { return {axis.title, axis.logarithmic, axis.min, axis.max}; }

pages::ChartAxis axis_of(const KeptAxis& axis) { return {axis.title, axis.logarithmic, axis.min, axis.max}; }

KeptChart kept(const pages::LineChart& chart) {
  KeptChart made{.title = chart.title,
                 .x = kept(chart.x),
                 .y = kept(chart.y),
                 .series = {},
                 .marks = {},
                 .caption = chart.caption};
  for (const pages::ChartSeries& each : chart.series)
    made.series.push_back({.name = each.name,
                           .x = finite_or_none(each.x),
                           .y = finite_or_none(each.y),
                           .error = finite_or_none(each.error),
                           .line = each.line,
                           .points = each.points,
                           .expected = each.expected,
                           .property = each.property});
  for (const pages::ChartMark& mark : chart.marks)
    made.marks.push_back({mark.axis == pages::ChartMark::Axis::y, mark.value, mark.text});
  return made;
}

pages::LineChart chart_of(const KeptChart& made) {
  pages::LineChart chart{.title = made.title,
                         .x = axis_of(made.x),
                         .y = axis_of(made.y),
                         .series = {},
                         .marks = {},
                         .caption = made.caption};
  for (const KeptSeries& each : made.series)
    chart.series.push_back({.name = each.name,
                            .x = or_nan(each.x),
                            .y = or_nan(each.y),
                            .error = or_nan(each.error),
                            .line = each.line,
                            .points = each.points,
                            .expected = each.expected,
                            .property = each.property});
  for (const KeptMark& mark : made.marks)
    chart.marks.push_back({mark.across ? pages::ChartMark::Axis::y : pages::ChartMark::Axis::x, mark.value, mark.text});
  return chart;
}

std::string shown_json(const inspect::FinishedStudy& study) {
  Shown shown{.answer = study.result.answer,
              .notes = study.result.notes,
              .checkpoints = study.checkpoints,
              .charts = {},
              .numbers = {}};
  for (const pages::LineChart& chart : study.result.charts) shown.charts.push_back(kept(chart));
  for (const inspect::NumbersOfRuns& each : study.result.numbers)
    shown.numbers.push_back({each.name, each.place, finite_or_none(each.values)});
  return runs::write_json(shown).dump(1, ' ', false, runs::Json::error_handler_t::replace) + "\n";
}

// None where the place holds no whole study.
std::optional<inspect::StudyResult> kept_result(const fs::path& place, std::size_t runs_of_study) {
  std::error_code problem;
  if (!fs::exists(place / shown_file, problem)) return std::nullopt;
  try {
    Shown shown;
    runs::read_json(runs::Json::parse(read_file(place / shown_file)), "study", shown);
    inspect::StudyResult result{.answer = shown.answer, .notes = shown.notes};
    for (const KeptChart& chart : shown.charts) result.charts.push_back(chart_of(chart));
    for (const KeptNumbers& each : shown.numbers) {
      if (each.values.size() != runs_of_study) return std::nullopt;
      result.numbers.push_back({each.name, each.place, or_nan(each.values)});
    }
    for (const std::string& file : inspect::files_of_study(place))
      if (!fs::exists(place / file)) return std::nullopt;
    return result;
  } catch (const std::exception&) {  // damaged: made anew
    return std::nullopt;
  }
}

void copy_study(const fs::path& from, const fs::path& to) {
  const auto lock = take_folder(to, inspect::study_kind, true);
  remove_files(to, inspect::files_of_study(to));
  for (const std::string& file : inspect::files_of_study(from)) write_file(to / file, read_file(from / file));
}

}  // namespace

fs::path StudyStore::place(const inspect::StudyEntry& entry, const LabParameters& parameters,
                           const std::vector<inspect::RunToStudy>& runs) const {
  runs::Json record{{"study", entry.name}, {"version", version_}, {"parameters", runs::Json::object()}};
  for (const LabParameter& parameter : parameters.all()) record["parameters"][parameter.name] = parameter.text();
  for (const inspect::RunToStudy& run : runs)
    record["runs"].push_back(
        {{"name", run.name}, {"row", run.kind}, {"checkpoint", sha256_of_file(runs::find_checkpoint(run.path).file)}});
  const std::string text = record.dump(-1, ' ', false, runs::Json::error_handler_t::replace);
  return folder_ / kept_studies_folder / sha256(text).substr(0, digits_of_study);
}

bool StudyStore::holds(const inspect::StudyEntry& entry, const LabParameters& parameters,
                       const std::vector<inspect::RunToStudy>& runs) const {
  if (remake_) return false;
  try {
    return kept_result(place(entry, parameters, runs), runs.size()).has_value();
  } catch (const Error&) {  // a damaged run, which will be trained anew
    return false;
  }
}

inspect::FinishedStudy StudyStore::study(const inspect::StudyEntry& entry, const LabParameters& parameters,
                                         const std::vector<inspect::RunToStudy>& runs, const fs::path& target,
                                         const std::function<inspect::FinishedStudy()>& make) const {
  const fs::path kept_at = place(entry, parameters, runs);
  if (!remake_)
    if (auto result = kept_result(kept_at, runs.size())) {
      copy_study(kept_at, target);
      return {.study = &entry, .parameters = parameters, .result = *std::move(result)};
    }
  inspect::FinishedStudy made = make();
  {
    const auto lock = take_folder(target, inspect::study_kind, true);
    inspect::write_study(made, target);
  }
  make_folder(kept_at);
  const FolderLock lock(kept_at, inspect::study_kind,
                        [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); });
  inspect::write_study(made, kept_at);
  write_file(kept_at / shown_file, shown_json(made));
  return made;
}

}  // namespace cogwheel::reproduce
