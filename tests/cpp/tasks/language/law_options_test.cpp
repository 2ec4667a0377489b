// An option that a law's header names is a key of configurations, and no list names it again.
#include "cogwheel/attention/mechanisms/law_options.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "cogwheel/attention/mechanisms/added_law.h"
#include "cogwheel/attention/mechanisms/recurrent_contract.h"
#include "cogwheel/nn/blocks/transformer_block.h"
#include "cogwheel/nn/mixers/recurrent_layer.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/tasks/language/language_model.h"
#include "support/usage_error_of.h"

namespace cogwheel::tasks::language::law_options_test {
namespace {

constexpr std::array<RecurrentParameter, 1> beta{{{"beta", "BHN", Values::from_0_to_2}}};

RecurrentLaw delta_law(std::string_view name, std::span<const LawOption> options) {
  return {.name = name,
          .title = "A delta rule",
          .walks = Walks::delta,
          .parameters = beta,
          .formula = "S",
          .citation = "a test",
          .options = options};
}

TEST(LawOptions, AreKeysOfAConfiguration) {
  static constexpr std::array<LawOption, 1> options{{{"strong_writes", "beta"}}};
  add_recurrent_law(delta_law("strong_delta", options), "strong_delta: a test");
  runs::RunConfig config;
  runs::set_options(config, {"model.mechanism=strong_delta", "model.strong_writes=true"});
  const auto json = runs::to_json(config);
  EXPECT_TRUE(json.at("model.strong_writes"));
  EXPECT_FALSE(json.at("model.negative_eigenvalues"));
  const runs::RunConfig read = runs::config_from_json(json, "a record");
  const LanguageModelOptions model = read.model.as<LanguageModelOptions>();
  EXPECT_EQ(model, config.model.as<LanguageModelOptions>());
  EXPECT_NE(model, runs::RunConfig().model.as<LanguageModelOptions>());
  const nn::TransformerBlockOptions block = layer_options(model, 0);
  ASSERT_TRUE(block.recurrent);
  EXPECT_TRUE(block.recurrent->law_options.on("strong_writes"));
  EXPECT_FALSE(block.recurrent->law_options.on("negative_eigenvalues"));
}

TEST(LawOptions, AreOfAParameterOfTheirLaw) {
  static constexpr std::array<LawOption, 1> options{{{"strong_reads", "gamma"}}};
  EXPECT_EQ(usage_error_of([&] { add_recurrent_law(delta_law("other_delta", options), "other_delta: a test"); }),
            "other_delta: strong_reads: expected an option of a parameter that the law lists, got gamma");
}

TEST(LawOptions, OneThatWasNeverAskedAboutIsOff) {
  LawSwitches asked, never;
  asked["negative_eigenvalues"] = false;
  EXPECT_EQ(asked, never);
  asked["negative_eigenvalues"] = true;
  EXPECT_NE(asked, never);
  EXPECT_NE(never, asked);
}

}  // namespace
}  // namespace cogwheel::tasks::language::law_options_test
