// Whatever law the check lets pass runs: its operator, its card and a plain layer.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cogwheel/attention/mechanisms/added_law.h"
#include "cogwheel/attention/mechanisms/recurrent_contract.h"
#include "cogwheel/attention/mechanisms/recurrent_law_check.h"
#include "cogwheel/core/error.h"
#include "cogwheel/nn/mixers/recurrent_layer.h"
#include "cogwheel/ops/numerics_card.h"

namespace cogwheel::nn::own_law_test {
namespace {

// Whether the law is in the catalogue now.
bool added(RecurrentLaw law, std::vector<const Mechanism*>& laws) {
  const std::string name = "law_" + std::to_string(laws.size());
  law.name = name, law.title = "A law", law.formula = "S";
  try {
    laws.push_back(&add_recurrent_law(law, name));
  } catch (const UsageError&) {
    return false;
  }
  return true;
}

// Every combination that is sound, without the tensors that may be left out, and with them; as it stands, and with each
// function of a built-in law, which reads its own tensors too.
const std::vector<const Mechanism*>& sound_laws() {
  static const std::vector<const Mechanism*> laws = [] {
    std::vector<const Mechanism*> sound;
    std::vector<RecurrentLaw> with_functions{{}};
    for (const Mechanism& mechanism : mechanisms())
      if (const RecurrentLaw* law = mechanism.recurrent(); law != nullptr && law->run != nullptr)
        with_functions.push_back(*law);
    const auto add = [&](RecurrentLaw law, const RecurrentLaw& of_function, bool with_allowed) {
      std::vector<RecurrentParameter> parameters;
      for (const ReadParameter& read : parameters_read(law))
        if (!of_function.has_parameter(read.name) && (with_allowed || read.presence != ReadParameter::allowed))
          parameters.push_back({read.name, read.axes[0], read.values, read.presence != ReadParameter::optional});
      parameters.insert(parameters.end(), of_function.parameters.begin(), of_function.parameters.end());
      law.parameters = parameters;
      added(law, sound);
    };
    for (const RecurrentLaw& of_function : with_functions)
      for (std::size_t t = 0; t < std::size(transition_names); ++t)
        for (std::size_t walks = 0; walks < std::size(walks_names); ++walks)
          for (std::size_t f = 0; f < std::size(features_names); ++f)
            for (std::size_t n = 0; n < std::size(normalizer_names); ++n) {
              RecurrentLaw law = of_function;
              law.transition = static_cast<Transition>(t);
              // A function takes the decays that it was written for; cosFormer's any that is one number of a token.
              if (law.run && of_function.transition != law.transition &&
                  (!of_function.over_all || law.transition == Transition::per_channel))
                continue;
              law.walks = static_cast<Walks>(walks);
              law.features = static_cast<Features>(f);
              law.normalizer = static_cast<Normalizer>(n);
              const ReadParameters read = parameters_read(law);
              add(law, of_function, false);
              if (std::any_of(read.begin(), read.end(),
                              [](const ReadParameter& each) { return each.presence == ReadParameter::allowed; }))
                add(law, of_function, true);
            }
    return sound;
  }();
  return laws;
}

std::string described(const RecurrentLaw& law) {
  std::string function = "no function";
  for (const Mechanism& mechanism : mechanisms())
    if (const RecurrentLaw* each = mechanism.recurrent(); each && each->run && each->run == law.run)
      function = "the function of " + std::string(each->name);
  return std::string(name_in(transition_names, law.transition)) + ", " + std::string(name_in(walks_names, law.walks)) +
         ", " + std::string(name_in(features_names, law.features)) + ", " +
         std::string(name_in(normalizer_names, law.normalizer)) + ", " + std::to_string(law.parameters.size()) +
         " parameters, " + function;
}

TEST(OwnLaw, EveryOneThatIsSoundRunsRight) {
  EXPECT_GT(sound_laws().size(), 40u);
  for (const Mechanism* mechanism : sound_laws()) {
    SCOPED_TRACE(described(*mechanism->recurrent()));
    EXPECT_NO_THROW(ops::check_recurrent_numbers(*mechanism->recurrent()));
  }
}

TEST(OwnLaw, HasAPlainLayerThatLearnsAndDecodes) {
  for (const Mechanism* mechanism : sound_laws()) {
    SCOPED_TRACE(described(*mechanism->recurrent()));
    RecurrentLayer layer(RecurrentLayerOptions{.width = 16,
                                               .heads = 2,
                                               .mechanism = std::string(mechanism->description.name),
                                               .layer = 1,
                                               .layers = 2,
                                               .context = 20});
    layer->initialize(WeightInitializer(7), "layer", 0.5, 0.5);
    layer->to(at::kDouble);
    const at::Tensor x = torch::randn({2, 9, 16}, at::make_generator<at::CPUGeneratorImpl>(3), at::kDouble);
    const at::Tensor whole = layer(x);
    whole.square().sum().backward();
    for (const auto& parameter : layer->named_parameters()) {
      ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
      EXPECT_TRUE(parameter.value().grad().isfinite().all().item<bool>()) << parameter.key();
    }
    const torch::NoGradGuard no_grad;
    const auto state = layer->make_state(2, 0);
    ForwardContext context;
    context.layer_state = state.get();
    const at::Tensor begun = layer->forward(x.slice(1, 0, 5), context), rest = layer->forward(x.slice(1, 5), context);
    EXPECT_TRUE(at::allclose(at::cat({begun, rest}, 1), whole, 1e-9, 1e-11));
  }
}

TEST(OwnLaw, HasACard) {
  for (const char* name : {"gla", "s4", "dfw", "mlstm", "cosformer", "deltanet"}) {
    const authoring::NumericsCard card = ops::numerics_card(find_mechanism(name));
    EXPECT_TRUE(card.problems.empty()) << name << ": " << card.problems.front();
    EXPECT_NE(authoring::to_text(card).find("the same bits with 1, 2, 3 and 5 threads"), std::string::npos)
        << authoring::to_text(card);
  }
}

}  // namespace
}  // namespace cogwheel::nn::own_law_test
