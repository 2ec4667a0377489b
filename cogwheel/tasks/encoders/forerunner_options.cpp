#include "cogwheel/tasks/encoders/forerunner_options.h"

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::tasks::encoders {
namespace {

using Count = Range<std::int64_t>;

// The kind whose score it is, over the whole sentence.
std::string_view kind_of_score(AlignmentScore score) {
  return score == AlignmentScore::additive ? "bahdanau" : "luong_dot";
}

// Row maps that may weigh such a score.
std::vector<std::string> maps_of(AlignmentScore score) {
  const std::string_view kind = kind_of_score(score);
  std::vector<std::string> maps;
  for (const std::string& name : alignment_names()) {
    if (name == kind) maps.emplace_back("softmax");
    // Longer names are of windows too.
    if (name.size() > kind.size() && name.starts_with(kind) && name[kind.size()] == '_' &&
        mechanism_or_null(name.substr(kind.size() + 1)) != nullptr)
      maps.push_back(name.substr(kind.size() + 1));
  }
  return maps;
}

void check_shared(const ForerunnerOptions& options, AlignmentScore score) {
  constexpr std::int64_t widest = 1024;  // of a query and a key
  const auto expect = [](const char* name, auto value, const auto& range) {
    expect_within(std::string("model.") + name, value, range);
  };
  expect("vocabulary", options.vocabulary, Count{1, 1 << 24});
  expect("context", options.context, runs::context_range);
  expect("width", options.width, Count{8, widest});
  expect("feed_forward", options.feed_forward, Count{0, 1 << 20});
  expect("classes", options.classes, Count{0, 1 << 20});
  expect("dropout", options.dropout, runs::dropout_range);
  const std::vector<std::string> maps = maps_of(score);
  if (std::find(maps.begin(), maps.end(), options.mechanism) != maps.end()) return;
  std::string expected = score == AlignmentScore::additive ? "a row map of any score" : "a row map";
  if (!nearest_names(options.mechanism, maps).empty()) expected += ", " + expected_names(options.mechanism, maps);
  throw UsageError(expected_got("model.mechanism", expected, options.mechanism));
}

std::vector<runs::ConfigField> shared_fields(ForerunnerOptions& options, const std::vector<runs::ConfigField>& own) {
  std::vector<runs::ConfigField> fields{
      {"model.mechanism", &options.mechanism},       {"model.vocabulary", &options.vocabulary},
      {"model.context", &options.context},           {"model.width", &options.width},
      {"model.feed_forward", &options.feed_forward}, {"model.classes", &options.classes},
      {"model.dropout", &options.dropout},
  };
  fields.insert(fields.end(), own.begin(), own.end());
  return fields;
}

}  // namespace

std::string alignment_over(AlignmentScore score, std::string_view mechanism) {
  std::string name(kind_of_score(score));
  if (mechanism != "softmax") name.append("_").append(mechanism);
  return name;
}

void check(const StructuredOptions& options) {
  check_shared(options, AlignmentScore::dot);
  expect_within("model.layers", options.layers, Count{1, 1000});
  expect_within("model.queries", options.queries, Count{1, 1 << 10});
  expect_within("model.penalty", options.penalty, Range<double>{.min = 0, .max = 1e6});
  if (options.width % 2 != 0)
    throw UsageError(expected_got("model.width", "an even number: half of it reads in each direction",
                                  std::to_string(options.width)));
  if (options.cell != "lstm" && options.cell != "gru")
    throw UsageError(expected_got("model.cell", expected_names(options.cell, {"lstm", "gru"}), options.cell));
}
void check(const LstmnOptions& options) { check_shared(options, AlignmentScore::additive); }
void check(const DecomposableOptions& options) { check_shared(options, AlignmentScore::dot); }

std::int64_t balanced_width(const ForerunnerOptions& options) { return options.feed_forward_width(); }
void set_balanced_width(ForerunnerOptions& options, std::int64_t width) { options.feed_forward = width; }
void stand_in_for_data(ForerunnerOptions& options) {
  if (options.vocabulary == 0) options.vocabulary = 1;
  if (options.classes == 0) options.classes = 2;
}
nn::MechanismText mechanism_text(const ForerunnerOptions& options, std::string_view what) {
  const Mechanism& map = find_mechanism(options.mechanism, what);
  return {.title = std::string(map.description.title),
          .formula = std::string(map.description.formula),
          .definition = std::string(map.definition)};
}

std::vector<runs::ConfigField> config_fields(StructuredOptions& options) {
  return shared_fields(options, {{"model.layers", &options.layers},
                                 {"model.cell", &options.cell},
                                 {"model.queries", &options.queries},
                                 {"model.penalty", &options.penalty}});
}
std::vector<runs::ConfigField> config_fields(LstmnOptions& options) { return shared_fields(options, {}); }
std::vector<runs::ConfigField> config_fields(DecomposableOptions& options) { return shared_fields(options, {}); }

}  // namespace cogwheel::tasks::encoders
