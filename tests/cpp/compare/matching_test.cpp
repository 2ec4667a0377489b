#include "cogwheel/compare/plan/matching.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/compare/plan/presets.h"
#include "cogwheel/compare/record/training_length.h"
#include "cogwheel/core/error.h"
#include "cogwheel/runs/task.h"
#include "cogwheel/tasks/language/language_model_form.h"

namespace cogwheel::compare {
namespace {

tasks::language::LanguageModelOptions model(const runs::Preset& preset, std::string_view mechanism,
                                            std::int64_t vocabulary, std::string_view form = "gpt") {
  auto options = preset.model.as<tasks::language::LanguageModelOptions>();
  tasks::language::set_form(options, form);
  options.mechanism = mechanism;
  options.vocabulary = vocabulary;
  return options;
}

std::int64_t count(const runs::ModelOptions& options) {
  return runs::parameter_count(options.as<tasks::language::LanguageModelOptions>());
}

// Every pair of mechanisms at every preset and in every form, whichever is the baseline. What a baseline is to be
// matched by is its size alone, so that those of equal size are one.
TEST(Matching, ParametersWithinOnePercent) {
  for (const runs::Preset& preset : presets()) {
    if (preset.model.get_if<tasks::language::LanguageModelOptions>() == nullptr) continue;
    for (const std::string& form : tasks::language::form_names())
      for (const std::int64_t vocabulary : {65, 256, 1500}) {
        std::map<std::int64_t, std::string_view> targets;
        for (const Mechanism& base : mechanisms())
          targets.emplace(count(model(preset, base.description.name, vocabulary, form)), base.description.name);
        for (const Mechanism& other : mechanisms()) {
          std::map<std::int64_t, std::int64_t>
              counts;  // by the feed-forward width, the one option that matching changes
          const auto counted = [&](const runs::ModelOptions& options) {
            const auto [found, added] =
                counts.try_emplace(options.as<tasks::language::LanguageModelOptions>().feed_forward);
            if (added) found->second = count(options);
            return found->second;
          };
          const tasks::language::LanguageModelOptions unmatched =
              model(preset, other.description.name, vocabulary, form);
          for (const auto& [target, base] : targets) {
            const runs::ModelOptions matched = match_parameters(unmatched, target, counted);
            const double deviation = std::abs(static_cast<double>(counted(matched)) / static_cast<double>(target) - 1);
            EXPECT_LE(deviation, parameter_tolerance)
                << preset.name << ", " << form << ": " << other.description.name << " to " << base;
          }
        }
      }
  }
}

TEST(Matching, NamesTheWayOutWhereNoWidthIsNearEnough) {
  tasks::language::LanguageModelOptions tiny = model(find_preset("tiny"), "symmetric", 65);
  tiny.layers = 50, tiny.heads = 1, tiny.width = 16;
  try {
    match_parameters(tiny, 100, count);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_TRUE(std::string(error.what())
                    .starts_with("--match parameters with symmetric: expected a width that gives 100 "
                                 "within 1 %, or --match tokens, got "))
        << error.what();
  }
}

TEST(Matching, SymmetricWidensItsFeedForward) {
  const runs::Preset& preset = find_preset("small");
  const std::int64_t target = runs::parameter_count(model(preset, "softmax", 65));
  const tasks::language::LanguageModelOptions symmetric = model(preset, "symmetric", 65);
  EXPECT_LT(static_cast<double>(runs::parameter_count(symmetric)), 0.95 * static_cast<double>(target));
  EXPECT_GT(runs::balanced_width(match_parameters(symmetric, target, count)), symmetric.feed_forward_width());
}

TEST(Matching, NearEnoughStaysAsItIs) {
  const tasks::language::LanguageModelOptions cog = model(find_preset("small"), "cog", 65);
  EXPECT_EQ(match_parameters(cog, runs::parameter_count(cog), count), runs::ModelOptions(cog));
}

TEST(Matching, RefusesWhatNoWidthReaches) {
  EXPECT_THROW(match_parameters(model(find_preset("tiny"), "softmax", 65), 100, count), UsageError);
}

TEST(Matching, MapsOfAMixtureAreThoseOfItsOutputHeads) {
  EXPECT_EQ(tasks::language::output_heads(model(find_preset("small"), "differential", 65)), 2);
  EXPECT_EQ(tasks::language::output_heads(model(find_preset("small"), "cog", 65)), 4);
  EXPECT_EQ(tasks::language::output_heads(model(find_preset("small"), "gla+differential", 65)), 4);
}

TEST(Presets, StepsDecideTheSchedule) {
  for (const std::int64_t steps : {1, 7, 20, 95, 2000, 100000}) {
    const runs::TrainingOptions training = with_steps(find_preset("small").training, steps);
    EXPECT_EQ(training.steps, steps);
    EXPECT_LE(training.warm_up, std::max<std::int64_t>(steps / 10, 0));
    EXPECT_LE((steps + training.evaluate_every - 1) / training.evaluate_every, 10);
    EXPECT_NO_THROW(runs::check(training)) << steps;
  }
}

TEST(Presets, UnknownNamesAreAnsweredWithTheNearest) {
  try {
    find_preset("smal");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("small"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace cogwheel::compare
